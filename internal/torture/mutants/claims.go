package mutants

// patient has handlers that take longer than every timeout, with nothing wrong.
var patient = []string{"-jobs", "2000", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-holds", "3"}

// contended has several processes at few groups, so that claims meet.
var contended = []string{"-jobs", "2000", "-groups", "10", "-processes", "3", "-lanes", "4", "-batch", "1"}

const (
	claimFile = "groups/sql/claim.sql"
	laneFile  = "groups/lane.go"

	lockGroup = "      FOR NO KEY UPDATE SKIP LOCKED) g\n"
	lockHead  = "                    FOR NO KEY UPDATE SKIP LOCKED) j\n"

	// both is what claims the two.
	both = `FROM (SELECT g.xmax AS xid
      FROM pgfifo.queue_groups g
      WHERE g.queue = $1 AND g.group_id = $2
` + lockGroup + `CROSS JOIN LATERAL (SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.ctid,
                           j.xmax AS job_xid, g.xid AS group_xid
                    FROM pgfifo.jobs j
                    WHERE j.ctid = (SELECT h.ctid
                                    FROM pgfifo.jobs h
                                    WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3
                                    ORDER BY h.queue, h.group_id, h.id
                                    LIMIT 1)
` + lockHead
)

var claims = []Mutant{
	{
		Name:   "claim-joined",
		Breaks: "the claim is the first of the jobs joined to their group that can be locked: a miss keeps the jobs behind it locked",
		Edits: []Edit{{claimFile, both, `FROM (SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.ctid,
             j.xmax AS job_xid, g.xmax AS group_xid
      FROM pgfifo.queue_groups g, pgfifo.jobs j
      WHERE g.queue = $1 AND g.group_id = $2
        AND j.queue = $1 AND j.group_id = $2 AND j.id > $3
      ORDER BY j.queue, j.group_id, j.id
      LIMIT 1
      FOR NO KEY UPDATE OF j, g SKIP LOCKED) j
`}},
		Torture: contended, By: []string{"I4", "I3"},
	},
	{
		Name:   "head-skip-locked",
		Breaks: "the head is the first job that nobody has locked",
		Edits:  []Edit{{claimFile, "LIMIT 1)\n" + lockHead, "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)\n" + lockHead}},
		Test:   Test{"groups", "TestMissedClaimIsFreedByTheNextStep"},
	},
	{
		Name:   "head-filtered",
		Breaks: "the head is the first job that is due: one that waits to be tried again is overtaken",
		Edits: []Edit{{claimFile, "AND h.id > $3\n                                    ORDER", `AND h.id > $3
                                      AND (h.run_at IS NULL OR h.run_at <= statement_timestamp())
                                    ORDER`}},
		Torture: contended, By: []string{"I4"},
	},
	{
		Name:    "claim-locks-only-the-job",
		Breaks:  "the group's row is not locked: a lower id that is committed late runs beside the job that was the head",
		Edits:   []Edit{{claimFile, lockGroup, "     ) g\n"}},
		Torture: contended, By: []string{"I3", "I6", "I8"},
	},
	{
		Name:    "claim-locks-only-the-group",
		Breaks:  "the head's row is not locked, so that a lost attempt leaves no evidence",
		Edits:   []Edit{{claimFile, lockHead, "                   ) j\n"}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "claim-without-a-lock",
		Breaks: "nothing is locked: what a hint says is taken for true",
		Edits: []Edit{
			{claimFile, lockGroup, "     ) g\n"},
			{claimFile, lockHead, "                   ) j\n"},
			{"groups/sql/fence_claim.sql", " AND g.xmax = pg_current_xact_id()::xid", ""}, // or handlers that ask for a token never succeed
		},
		Torture: contended, By: []string{"I3", "I5"},
	},
	{
		Name:   "stale-claim-trusted",
		Breaks: "a claim whose group another worker has had since its snapshot runs the head that it saw there",
		Edits:  []Edit{{"groups/hold.go", "h.stale = h.groupXID != 0 && !s.ended(h.groupXID)", "h.stale = h.groupXID != 0 && s.xmax == 0"}},
		Test:   Test{"groups", "TestClaimSeesWhoHadItsGroup"},
	},
	{
		Name:   "retry-leaves-no-trace",
		Breaks: "a failed attempt does not write to its group's row, so that a claim at the very moment does not know of it",
		Edits: []Edit{{"fifo/sql/retry.sql", `WITH met AS (
    UPDATE pgfifo.queue_groups SET created_at = created_at
    WHERE queue = $1 AND group_id = $2
      AND (SELECT j.attempts FROM pgfifo.jobs j WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3) = 0
)
`, ""}},
		Test: Test{"fifo", "TestRetryWritesToItsGroup"},
	},
	{
		Name:    "repeatable-read",
		Breaks:  "claims run under REPEATABLE READ, where a snapshot outlives the lock",
		Edits:   []Edit{{"groups/sql.go", "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE"}},
		Torture: contended, By: []string{"I9", "I11", "I3", "I4", "I5"}, Alone: true,
	},
	{
		Name:   "claims-wait",
		Breaks: "claims of several groups wait for each other, and deadlock",
		Edits:  []Edit{{"groups/sql/claim_many.sql", "FOR NO KEY UPDATE SKIP LOCKED) g", "FOR NO KEY UPDATE) g"}},
		Test:   Test{"groups", "TestClaimOfManyGroups"},
	},
	{
		Name:   "miss-kept",
		Breaks: "the next claim goes on in the transaction of one that missed, whose group stays locked",
		Edits: []Edit{{
			laneFile, "	case next != nil:\n		pipeline.SendQueryStatement(l.stmts[stmtChain]",
			"	case next != nil && l.hold == nil && len(calls) == 0:\n		pipeline.SendQueryStatement(l.stmts[stmtBegin], nil, nil, nil)\n" +
				"	case next != nil:\n		pipeline.SendQueryStatement(l.stmts[stmtChain]",
		}},
		Test: Test{"groups", "TestMissedClaimIsFreedByTheNextStep"},
	},
	{
		Name:    "watcher-of-pgx",
		Breaks:  "a statement whose context ends closes the connection, which frees the group while its handler goes on",
		Edits:   []Edit{{"groups/session.go", "		if !lane {\n", "		if lane || !lane {\n"}},
		Torture: contended, By: []string{"I6"},
	},
	{
		Name:   "cancelled-once",
		Breaks: "a cancel request that comes too early is not sent again, and the job's connection is given up",
		Edits:  []Edit{{"groups/canceller.go", "for gap := cancelRest; ctx.Err() == nil; gap *= 2 {", "for gap := cancelRest; gap == cancelRest; gap *= 2 {"}},
		Test:   Test{"groups", "TestCancelRequestIsLost"},
	},
	{
		Name:   "settled-behind-the-commit",
		Breaks: "a job is settled in a transaction after the one that held it: it may run again in between",
		Edits: []Edit{
			{
				laneFile, "	for _, c := range calls {\n		pipeline.SendQueryStatement",
				"	if len(calls) > 0 && l.hold != nil {\n		pipeline.SendQueryStatement(l.stmts[stmtChain], nil, nil, nil)\n	}\n" +
					"	for _, c := range calls {\n		pipeline.SendQueryStatement",
			},
			{
				laneFile, "	held := true\n	for range calls {",
				"	held := true\n	if len(calls) > 0 {\n		if _, err := readTag(pipeline); err != nil {\n			return false, err\n		}\n	}\n" +
					"	for range calls {",
			},
		},
		Torture: contended, By: []string{"I4", "I5", "I6"},
	},
	{
		Name:   "readiness-of-the-transaction",
		Breaks: "whether a head is due is asked of now(), the beginning of the transaction",
		Edits:  []Edit{{claimFile, "       statement_timestamp() AS now,", "       now() AS now,"}},
		Test:   Test{"groups", "TestReadinessIsAsOfTheStatement"},
	},
}
