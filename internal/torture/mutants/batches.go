package mutants

// crowded has few groups with many jobs each, of every kind of queue.
const crowded = "-jobs 2000 -groups 10 -processes 3 -lanes 3"

const handleFile = "fifo/handle.go"

var batches = []Mutant{
	plant("changed-batch-is-a-crash", "who takes the group of a batch that is undone charges its head",
		test("internal/lease", "TestBatchWhoseJobsHaveChanged"),
		in(stepFile, "behind := slices.ContainsFunc(calls, func(c Call) bool { return c.Behind })",
			"behind := false && slices.ContainsFunc(calls, func(c Call) bool { return c.Behind })"),
		in(stepFile, "if c.Behind {", "if c.Behind && behind {")),
	plant("batch-without-its-head", "a batch locks its group and not its head, so that a lost one leaves no evidence",
		test("internal/lease", "TestLostBatchOfOneGroup"),
		in(claimBatchFile, "      FOR NO KEY UPDATE OF h SKIP LOCKED) head", "      ) head")),
	plant("batch-goes-on", "the jobs of a group run on behind one that failed",
		run(crowded, "I4"),
		in(handleFile, "		if t.place == stopped || i > 0 && (",
			"		if t.place == stopped && len(tasks) == 1 || i > 0 && (")),
	plant("batch-tail-kept", "the jobs of a group behind one that failed are taken to be done with the batch",
		run(crowded, "I1"),
		in(handleFile, "		case t.place == stopped:\n			a.giveBack(",
			"		case t.place == stopped && len(tasks) == 1:\n			a.giveBack(")),
	plant("batch-keeps-failed-writes", "what a failed job of a batch wrote is committed with those before it",
		run(crowded, "I5"),
		in(laneFile, "	if !l.loan.used() && l.pg().TxStatus() == 'T' {",
			"	if l.hold != nil && len(l.hold.Rest) > 0 && l.pg().TxStatus() == 'T' {")),
	plant("batch-behind-what-is-not-next", "a batch takes the jobs behind its head from the end of the group",
		run(crowded, "I4"),
		in(claimBatchFile, "ORDER BY b.queue, b.group_id, b.id\n",
			"ORDER BY b.queue, b.group_id, (b.id > (SELECT min(h.id) FROM pgfifo.jobs h\n"+
				"WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3)), b.id DESC\n")),
	plant("batch-failure-not-there",
		"a batch is committed, and told as given back, although a failed job of it was deleted meanwhile",
		test("fifo", "TestFailedJobOfABatchIsDeleted"),
		in(handleFile, "len(a.charged) > 0 && len(a.results) > 1", "len(a.charged) > len(a.results)")),
	plant("batch-not-counted", "a batch is taken to be done although some of its jobs were not there any more",
		test("fifo", "TestOperatorInABatch"),
		in("fifo/sql/succeed_batch.sql", "CASE WHEN count(*) <> pg_catalog.cardinality($2::bigint[])",
			"CASE WHEN count(*) > pg_catalog.cardinality($2::bigint[])")),
	plant("failed-job-in-company", "a job that has failed runs in a batch again, and takes the others down with it",
		test("fifo", "TestPoisonInABatch|TestOneAtATimeAfterAFailure|TestWhoRunsAlone"),
		in("internal/lease/hold.go", "	return h.Attempts > 0 || h.MaxAttempts == 1",
			"	return h.MaxAttempts == 1")),
}
