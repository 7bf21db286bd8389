package mutants

// patient has handlers that take longer than every timeout, with nothing wrong.
const patient = "-jobs 2000 -groups 40 -processes 3 -lanes 3 -batch 1 -holds 3"

// contended has several processes at few groups, so that claims meet.
const contended = "-jobs 2000 -groups 10 -processes 3 -lanes 4 -batch 1"

// limited has many lanes for a queue that runs few jobs at once.
const limited = "-jobs 3000 -groups 60 -processes 3 -lanes 12"

// several has groups of which several jobs may run at once, and lanes for them in several processes.
const several = "-jobs 2000 -groups 5 -processes 3 -lanes 8"

const (
	lockFile     = "internal/lease/sql/lock.sql"
	claimFile    = "internal/lease/sql/claim.sql"
	lockNextFile = "internal/lease/sql/lock_next.sql"
	stepFile     = "internal/lease/step.go"
	laneFile     = "internal/lease/lane.go"
	evidenceFile = "internal/lease/sql/evidence.sql"

	lock = "FOR NO KEY UPDATE SKIP LOCKED"
	gate = "\n  AND pg_current_xact_id_if_assigned() IS NOT NULL"

	// lockedBy is true of a row that some transaction in progress has locked.
	lockedBy = "h.xmax IN (SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid')"

	// named gives the transaction the id that the lock would.
	named = "AND pg_current_xact_id() IS NOT NULL"
)

var claims = []Mutant{
	plant("claim-in-one-statement",
		"the group is locked by the statement that looks at its jobs, whose snapshot is older than the lock",
		test("internal/lease", "TestClaimTakesTheRightHead"),
		in(lockFile, lock, named),
		in(claimFile, "FROM pgfifo.jobs j\nWHERE j.ctid",
			"FROM pgfifo.queue_groups g, pgfifo.jobs j\nWHERE g.queue = $1 AND g.group_id = $2 AND j.ctid")),
	plant("claim-without-its-group", "a claim that has missed its group locks its head all the same",
		test("internal/lease", "TestClaimMisses"), in(claimFile, gate, "")),
	plant("claim-of-many-without-their-groups",
		"a claim of several groups looks at the heads of those that it has missed, too",
		test("internal/lease", "TestHeldGroupAmongMany"),
		in("internal/lease/sql/claim_many.sql", "= pg_current_xact_id_if_assigned()::xid", "IS NOT NULL")),
	plant("pause-of-the-queue-of-many", "of a paused queue many groups are worked at once",
		test("internal/lease", "TestClaimWithoutASlot"),
		in("internal/lease/sql/claim_many.sql", "p.group_id = ''", "p.group_id = '?'")),
	plant("pause-of-one-of-many", "a paused group is worked beside others",
		test("internal/lease", "TestClaimWithoutASlot"),
		in("internal/lease/sql/claim_many.sql", "p.group_id = k.group_id", "p.group_id = '?'")),
	plant("slot-not-locked", "a queue runs more jobs at once than its limit says",
		run(limited, "I13"), in("internal/lease/sql/lock_slot.sql", "LIMIT 1\n    "+lock, "LIMIT 1")),
	plant("slot-for-the-group", "a claim that has a slot and has missed the group looks at its jobs all the same",
		test("internal/lease", "TestSlotAndNoGroup"),
		in("internal/lease/slot.go", "= pg_current_xact_id_if_assigned()::xid", "IS NOT NULL")),
	plant("group-slot-not-locked", "a group runs more jobs at once than its limit says",
		run(several, "I13"),
		in("internal/lease/sql/lock_group_slot.sql", "LIMIT 1\n                   "+lock+") g", "LIMIT 1) g"),
		in(lockNextFile, "s.xmax = pg_current_xact_id_if_assigned()::xid",
			"(s.xmax = pg_current_xact_id_if_assigned()::xid OR pg_current_xact_id() IS NOT NULL)"),
		// Else nothing starts, and handlers that ask for a token never succeed.
		in("internal/lease/sql/claim_group_slot.sql",
			"WHERE q.queue = $1 AND s.xmax = pg_current_xact_id_if_assigned()::xid", "WHERE q.queue = $1"),
		in("internal/lease/sql/fence_claim.sql", " AND g.xmax = pg_current_xact_id()::xid", "")),
	plant("group-limit-beside-the-old-way",
		"jobs start beside one that began before its group had a limit, and beside its batch",
		test("fifo", "TestGroupLimitRaised"),
		in("internal/lease/sql/mark.sql", "CASE WHEN k.slot THEN k.xid::text::xid8 END", "k.xid::text::xid8")),
	plant("group-full-and-tried", "a worker claims a group that its own lanes fill, if the head runs nowhere",
		test("fifo", "TestFullGroupDoesNotSpin"),
		in(bookFile, "(c.Holder != 0 || b.full(turn, c))", "c.Holder != 0")),
	plant("late-mark-of-the-settled",
		"where several jobs of a group run, a mark that came late charges an attempt that was given back",
		test("internal/lease", "TestGroupSlotEvidence"),
		in("internal/lease/sql/claim_group_slot.sql", "IS DISTINCT FROM 'committed'", "IS DISTINCT FROM 'none'")),
	plant("late-mark", "a mark on its way when its claim dies takes the place of that of the next claim",
		test("internal/lease", "TestLateMark"),
		in("internal/lease/sql/mark.sql", "WHERE EXCLUDED.xid IS NULL OR pg_xact_status(EXCLUDED.xid) = 'in progress'",
			"")),
	plant("two-that-block-a-group",
		"a job that fails for the last time while another one blocks its group has that attempt again",
		test("fifo", "TestGroupLimitBlocks"),
		in("fifo/sql/block.sql", "SET attempts = attempts + 1,", "SET attempts = attempts + 1 - "+
			"(SELECT count(*) FROM pgfifo.pauses WHERE queue = $1 AND group_id = $2 AND job <> $3),")),
	plant("used-up-tried-again",
		"a job whose attempts are used up is tried once more when the job that blocked its group is gone",
		test("fifo", "TestTwoBlockAtOnce"),
		in("fifo/giveup.go", "h.Attempts >= q.maxAttempts(h)", "h.Attempts > q.maxAttempts(h)")),
	plant("group-passes-what-is-locked",
		"a job starts before one that an operator has locked, or that somebody is only looking at",
		run(several, "I4"),
		in(lockNextFile, "h.id) IS NOT TRUE", "h.id) IS NOT TRUE AND NOT "+lockedBy),
		in("internal/lease/sql/claim_group_slot.sql", "h.id) IS NOT TRUE",
			"h.id) IS NOT TRUE AND (h.xmax = pg_current_xact_id_if_assigned()::xid OR NOT "+lockedBy+")")),
	plant("group-look-before-lock", "a job starts although one before it has failed since somebody looked",
		test("internal/lease", "TestGroupSlotLooksBehindTheLock"),
		in("internal/lease/sql/claim_group_slot.sql", "AND CASE WHEN h.xmax = '0'::xid THEN true",
			"AND CASE WHEN h.xmax <> pg_current_xact_id_if_assigned()::xid THEN false")),
	plant("group-slot-of-a-higher-limit",
		"a claim that was under way when a limit of groups is lowered starts one job too many",
		test("internal/lease", "TestGroupSlotLooksBehindTheLock"),
		in("internal/lease/sql/claim_group_slot.sql", "s.n <= q.group_limit", "s.n > 0")),
	plant("head-skip-locked", "the head is the first job that nobody has locked",
		test("internal/lease", "TestMissedClaimIsFreedByTheNextStep"),
		in(claimFile, "LIMIT 1)\n  AND j.q", "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)\n  AND j.q")),
	plant("head-filtered", "the head is the first job that is due: one that waits to be tried again is overtaken",
		test("internal/lease", "TestHeadTellsItsReadiness"),
		in(claimFile, "AND h.id > $3\n",
			"AND h.id > $3\n                  AND (h.run_at IS NULL OR h.run_at <= statement_timestamp())\n")),
	plant("claim-locks-only-the-job",
		"the group's row is not locked: a lower id that is committed late runs beside the job that was the head",
		test("internal/lease", "TestClaimTakesTheRightHead"), in(lockFile, lock, named)),
	plant("claim-locks-only-the-group", "the head's row is not locked, so that a lost attempt leaves no evidence",
		run(deadly, "I6"), in(claimFile, lock, "")),
	plant("claim-without-a-lock", "nothing is locked: what a hint says is taken for true",
		run(contended, "I3", "I5"),
		in(lockFile, lock, named),
		in(claimFile, lock, ""),
		// Else handlers that ask for a token never succeed.
		in("internal/lease/sql/fence_claim.sql", " AND g.xmax = pg_current_xact_id()::xid", "")),
	plant("repeatable-read", "claims run under REPEATABLE READ, where a snapshot outlives the lock",
		test("internal/lease", "TestLaneSaysItsIsolation"),
		in("internal/lease/sql.go", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
			"BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")),
	plant("claims-wait", "claims of several groups wait for each other, and deadlock",
		test("internal/lease", "TestClaimOfManyGroups"),
		in("internal/lease/sql/lock_many.sql", "FOR NO KEY UPDATE SKIP LOCKED) g", "FOR NO KEY UPDATE) g")),
	plant("miss-kept", "the next claim goes on in the transaction of one that missed, whose group stays locked",
		test("internal/lease", "TestMissedClaimIsFreedByTheNextStep"),
		in(stepFile, "	case next != nil:\n		p.send(stmtChain",
			"	case next != nil && l.hold == nil:\n"+"		p.send(stmtBegin, nil, nil)\n"+
				"	case next != nil:\n		p.send(stmtChain")),
	plant("watcher-of-pgx",
		"a statement whose context ends closes the connection, which frees the group while its handler goes on",
		run(contended, "I6"),
		in("internal/lease/connection.go", "		if !lane {\n", "		if lane || !lane {\n")),
	plant("cancelled-once",
		"a cancel request that comes too early is not sent again, and the job's connection is given up",
		test("internal/lease", "TestCancelRequestIsLost"),
		in("internal/lease/canceller.go", "for n := 1; ctx.Err() == nil; n++ {", "for n := 1; n == 1; n++ {")),
	plant("settled-behind-the-commit",
		"a job is settled in a transaction after the one that held it: it may run again in between",
		run(contended, "I4", "I5", "I6"),
		in(stepFile, "	for _, c := range calls {\n		if !c.Behind",
			"	if len(calls) > 0 && l.hold != nil {\n		p.send(stmtChain, nil, nil)\n	}\n"+
				"	for _, c := range calls {\n		if !c.Behind")),
	plant("readiness-of-the-transaction", "whether a head is due is asked of now(), the beginning of the transaction",
		test("internal/lease", "TestReadinessIsAsOfTheStatement"),
		in(claimFile, "       statement_timestamp() AS now,", "       now() AS now,")),
}
