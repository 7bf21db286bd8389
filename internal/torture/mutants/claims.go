package mutants

// patient has handlers that take longer than every timeout, with nothing wrong.
var patient = []string{"-jobs", "2000", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-holds", "3"}

// contended has several processes at few groups, so that claims meet.
var contended = []string{"-jobs", "2000", "-groups", "10", "-processes", "3", "-lanes", "4", "-batch", "1"}

// limited has many lanes for a queue that runs few jobs at once.
var limited = []string{"-jobs", "3000", "-groups", "60", "-processes", "3", "-lanes", "12"}

// several has groups of which several jobs may run at once, and lanes for them in several processes.
var several = []string{"-jobs", "2000", "-groups", "5", "-processes", "3", "-lanes", "8"}

const (
	lockFile     = "internal/lease/sql/lock.sql"
	claimFile    = "internal/lease/sql/claim.sql"
	lockNextFile = "internal/lease/sql/lock_next.sql"
	laneFile     = "internal/lease/lane.go"

	lock = "FOR NO KEY UPDATE SKIP LOCKED"
	gate = "\n  AND pg_current_xact_id_if_assigned() IS NOT NULL"

	// lockedBy is true of a row that some transaction in progress has locked.
	lockedBy = "h.xmax IN (SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid')"

	// named gives the transaction the id that the lock would.
	named = "AND pg_current_xact_id() IS NOT NULL"
)

var claims = []Mutant{
	{
		Name:   "claim-in-one-statement",
		Breaks: "the group is locked by the statement that looks at its jobs, whose snapshot is older than the lock",
		Edits: []Edit{
			{lockFile, lock, named},
			{claimFile, "FROM pgfifo.jobs j\nWHERE j.ctid", "FROM pgfifo.queue_groups g, pgfifo.jobs j\n" +
				"WHERE g.queue = $1 AND g.group_id = $2 AND j.ctid"},
		},
		Test: Test{"internal/lease", "TestClaimTakesTheRightHead"},
	},
	{
		Name:   "claim-without-its-group",
		Breaks: "a claim that has missed its group locks its head all the same",
		Edits:  []Edit{{claimFile, gate, ""}},
		Test:   Test{"internal/lease", "TestClaimMisses"},
	},
	{
		Name:   "claim-of-many-without-their-groups",
		Breaks: "a claim of several groups looks at the heads of those that it has missed, too",
		Edits:  []Edit{{"internal/lease/sql/claim_many.sql", "= pg_current_xact_id_if_assigned()::xid", "IS NOT NULL"}},
		Test:   Test{"internal/lease", "TestHeldGroupAmongMany"},
	},
	{
		Name:   "pause-of-the-queue-of-many",
		Breaks: "of a paused queue many groups are worked at once",
		Edits:  []Edit{{"internal/lease/sql/claim_many.sql", "p.group_id = ''", "p.group_id = '?'"}},
		Test:   Test{"internal/lease", "TestClaimWithoutASlot"},
	},
	{
		Name:   "pause-of-one-of-many",
		Breaks: "a paused group is worked beside others",
		Edits:  []Edit{{"internal/lease/sql/claim_many.sql", "p.group_id = k.group_id", "p.group_id = '?'"}},
		Test:   Test{"internal/lease", "TestClaimWithoutASlot"},
	},
	{
		Name:    "slot-not-locked",
		Breaks:  "a queue runs more jobs at once than its limit says",
		Edits:   []Edit{{"internal/lease/sql/lock_slot.sql", "LIMIT 1\n    " + lock, "LIMIT 1"}},
		Torture: limited, By: []string{"I13"},
	},
	{
		Name:   "slot-for-the-group",
		Breaks: "a claim that has a slot and has missed the group looks at its jobs all the same",
		Edits:  []Edit{{"internal/lease/slot.go", "= pg_current_xact_id_if_assigned()::xid", "IS NOT NULL"}},
		Test:   Test{"internal/lease", "TestSlotAndNoGroup"},
	},
	{
		Name:   "group-slot-not-locked",
		Breaks: "a group runs more jobs at once than its limit says",
		Edits: []Edit{
			{
				"internal/lease/sql/lock_shared.sql", "LIMIT 1\n                   " + lock + ") g",
				"LIMIT 1) g",
			},
			{
				lockNextFile, "s.xmax = pg_current_xact_id_if_assigned()::xid",
				"(s.xmax = pg_current_xact_id_if_assigned()::xid OR pg_current_xact_id() IS NOT NULL)",
			},
			// Else nothing starts, and handlers that ask for a token never succeed.
			{
				"internal/lease/sql/claim_shared.sql",
				"WHERE q.queue = $1 AND s.xmax = pg_current_xact_id_if_assigned()::xid", "WHERE q.queue = $1",
			},
			{"internal/lease/sql/fence_claim.sql", " AND g.xmax = pg_current_xact_id()::xid", ""},
		},
		Torture: several, By: []string{"I13"},
	},
	{
		Name:   "group-limit-beside-the-old-way",
		Breaks: "jobs start beside one that began before its group had a limit, and beside its batch",
		Edits: []Edit{{
			"internal/lease/sql/mark.sql", "CASE WHEN k.shared THEN k.xid::text::xid8 END", "k.xid::text::xid8",
		}},
		Test: Test{"fifo", "TestGroupLimitRaised"},
	},
	{
		Name:   "group-full-and-tried",
		Breaks: "a worker claims a group that its own lanes fill, if the head runs nowhere",
		Edits:  []Edit{{"internal/schedule/candidate.go", "(c.Holder != 0 || t.full(turn, c))", "c.Holder != 0"}},
		Test:   Test{"fifo", "TestFullGroupDoesNotSpin"},
	},
	{
		Name:   "late-mark-of-the-settled",
		Breaks: "where several jobs of a group run, a mark that came late charges an attempt that was given back",
		Edits: []Edit{{
			"internal/lease/sql/claim_shared.sql", "IS DISTINCT FROM 'committed'", "IS DISTINCT FROM 'none'",
		}},
		Test: Test{"internal/lease", "TestSharedEvidence"},
	},
	{
		Name:   "late-mark",
		Breaks: "a mark on its way when its claim dies takes the place of that of the next claim",
		Edits: []Edit{{
			"internal/lease/sql/mark.sql",
			"WHERE EXCLUDED.xid IS NULL OR pg_xact_status(EXCLUDED.xid) = 'in progress'", "",
		}},
		Test: Test{"internal/lease", "TestLateMark"},
	},
	{
		Name:   "two-that-block-a-group",
		Breaks: "a job that fails for the last time while another one blocks its group has that attempt again",
		Edits: []Edit{{
			"fifo/sql/block.sql", "SET attempts = attempts + 1,", "SET attempts = attempts + 1 - " +
				"(SELECT count(*) FROM pgfifo.pauses WHERE queue = $1 AND group_id = $2 AND job <> $3),",
		}},
		Test: Test{"fifo", "TestGroupLimitBlocks"},
	},
	{
		Name:   "used-up-tried-again",
		Breaks: "a job whose attempts are used up is tried once more when the job that blocked its group is gone",
		Edits:  []Edit{{"fifo/giveup.go", "h.Attempts >= s.maxAttempts(h)", "h.Attempts > s.maxAttempts(h)"}},
		Test:   Test{"fifo", "TestTwoBlockAtOnce"},
	},
	{
		Name:   "group-passes-what-is-locked",
		Breaks: "a job starts before one that an operator has locked, or that somebody is only looking at",
		Edits: []Edit{
			{lockNextFile, "h.id) IS NOT TRUE", "h.id) IS NOT TRUE AND NOT " + lockedBy},
			{
				"internal/lease/sql/claim_shared.sql", "h.id) IS NOT TRUE",
				"h.id) IS NOT TRUE AND (h.xmax = pg_current_xact_id_if_assigned()::xid OR NOT " + lockedBy + ")",
			},
		},
		Torture: several, By: []string{"I4"},
	},
	{
		Name:   "group-look-before-lock",
		Breaks: "a job starts although one before it has failed since somebody looked",
		Edits: []Edit{{
			"internal/lease/sql/claim_shared.sql", "AND CASE WHEN h.xmax = '0'::xid THEN true",
			"AND CASE WHEN h.xmax <> pg_current_xact_id_if_assigned()::xid THEN false",
		}},
		Test: Test{"internal/lease", "TestSharedLooksBehindTheLock"},
	},
	{
		Name:   "group-slot-of-a-higher-limit",
		Breaks: "a claim that was under way when a limit of groups is lowered starts one job too many",
		Edits:  []Edit{{"internal/lease/sql/claim_shared.sql", "s.n <= q.group_limit", "s.n > 0"}},
		Test:   Test{"internal/lease", "TestSharedLooksBehindTheLock"},
	},
	{
		Name:   "head-skip-locked",
		Breaks: "the head is the first job that nobody has locked",
		Edits:  []Edit{{claimFile, "LIMIT 1)\n  AND j.q", "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)\n  AND j.q"}},
		Test:   Test{"internal/lease", "TestMissedClaimIsFreedByTheNextStep"},
	},
	{
		Name:   "head-filtered",
		Breaks: "the head is the first job that is due: one that waits to be tried again is overtaken",
		Edits: []Edit{{
			claimFile, "AND h.id > $3\n",
			"AND h.id > $3\n                  AND (h.run_at IS NULL OR h.run_at <= statement_timestamp())\n",
		}},
		Torture: contended, By: []string{"I4"},
	},
	{
		Name: "claim-locks-only-the-job",
		Breaks: "the group's row is not locked: a lower id that is committed late runs beside the job that " +
			"was the head",
		Edits:   []Edit{{lockFile, lock, named}},
		Torture: contended, By: []string{"I3", "I6", "I8"},
	},
	{
		Name:    "claim-locks-only-the-group",
		Breaks:  "the head's row is not locked, so that a lost attempt leaves no evidence",
		Edits:   []Edit{{claimFile, lock, ""}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "claim-without-a-lock",
		Breaks: "nothing is locked: what a hint says is taken for true",
		Edits: []Edit{
			{lockFile, lock, named},
			{claimFile, lock, ""},
			// Else handlers that ask for a token never succeed.
			{"internal/lease/sql/fence_claim.sql", " AND g.xmax = pg_current_xact_id()::xid", ""},
		},
		Torture: contended, By: []string{"I3", "I5"},
	},
	{
		Name:   "repeatable-read",
		Breaks: "claims run under REPEATABLE READ, where a snapshot outlives the lock",
		Edits: []Edit{{
			"internal/lease/sql.go", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
			"BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE",
		}},
		Torture: contended, By: []string{"I9", "I11", "I3", "I4", "I5"}, Alone: true,
	},
	{
		Name:   "claims-wait",
		Breaks: "claims of several groups wait for each other, and deadlock",
		Edits: []Edit{{
			"internal/lease/sql/lock_many.sql", "FOR NO KEY UPDATE SKIP LOCKED) g", "FOR NO KEY UPDATE) g",
		}},
		Test: Test{"internal/lease", "TestClaimOfManyGroups"},
	},
	{
		Name:   "miss-kept",
		Breaks: "the next claim goes on in the transaction of one that missed, whose group stays locked",
		Edits: []Edit{{
			laneFile, "	case next != nil:\n		p.send(stmtChain",
			"	case next != nil && l.hold == nil && len(calls) == 0:\n" +
				"		p.send(stmtBegin, nil, nil)\n" +
				"	case next != nil:\n		p.send(stmtChain",
		}},
		Test: Test{"internal/lease", "TestMissedClaimIsFreedByTheNextStep"},
	},
	{
		Name: "watcher-of-pgx",
		Breaks: "a statement whose context ends closes the connection, which frees the group while its " +
			"handler goes on",
		Edits:   []Edit{{"internal/lease/connection.go", "		if !lane {\n", "		if lane || !lane {\n"}},
		Torture: contended, By: []string{"I6"},
	},
	{
		Name:   "cancelled-once",
		Breaks: "a cancel request that comes too early is not sent again, and the job's connection is given up",
		Edits: []Edit{{
			"internal/lease/canceller.go", "for n := 1; ctx.Err() == nil; n++ {",
			"for n := 1; n == 1; n++ {",
		}},
		Test: Test{"internal/lease", "TestCancelRequestIsLost"},
	},
	{
		Name:   "settled-behind-the-commit",
		Breaks: "a job is settled in a transaction after the one that held it: it may run again in between",
		Edits: []Edit{
			{
				laneFile, "	for _, c := range calls {\n		if !c.Behind",
				"	if len(calls) > 0 && l.hold != nil {\n		s.ended++\n" +
					"		p.send(stmtChain, nil, nil)\n	}\n" +
					"	for _, c := range calls {\n		if !c.Behind",
			},
		},
		Torture: contended, By: []string{"I4", "I5", "I6"},
	},
	{
		Name:   "readiness-of-the-transaction",
		Breaks: "whether a head is due is asked of now(), the beginning of the transaction",
		Edits:  []Edit{{claimFile, "       statement_timestamp() AS now,", "       now() AS now,"}},
		Test:   Test{"internal/lease", "TestReadinessIsAsOfTheStatement"},
	},
}
