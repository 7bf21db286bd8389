package mutants

// crowded has few groups with many jobs each, of every kind of queue.
var crowded = []string{"-jobs", "2000", "-groups", "10", "-processes", "3", "-lanes", "3"}

const handleFile = "fifo/handle.go"

var batches = []Mutant{
	{
		Name:   "changed-batch-is-a-crash",
		Breaks: "who takes the group of a batch that is undone charges its head",
		Edits: []Edit{{
			savepointFile, "behind := slices.ContainsFunc(calls, func(c Call) bool { return c.Behind })",
			"behind := false && slices.ContainsFunc(calls, func(c Call) bool { return c.Behind })",
		}, {savepointFile, "if c.Behind {", "if c.Behind && behind {"}},
		Test: Test{"internal/lease", "TestBatchWhoseJobsHaveChanged"},
	},
	{
		Name:   "batch-without-its-head",
		Breaks: "a batch locks its group and not its head, so that a lost one leaves no evidence",
		Edits:  []Edit{{claimBatchFile, "      FOR NO KEY UPDATE OF h SKIP LOCKED) head", "      ) head"}},
		Test:   Test{"internal/lease", "TestLostBatchOfOneGroup"},
	},
	{
		Name:   "batch-goes-on",
		Breaks: "the jobs of a group run on behind one that failed",
		Edits: []Edit{{
			handleFile, "		if t.place == stopped || i > 0 && (",
			"		if t.place == stopped && len(tasks) == 1 || i > 0 && (",
		}},
		Torture: crowded, By: []string{"I4"},
	},
	{
		Name:   "batch-tail-kept",
		Breaks: "the jobs of a group behind one that failed are taken to be done with the batch",
		Edits: []Edit{{
			handleFile, "		case t.place == stopped:\n			s.giveBack(",
			"		case t.place == stopped && len(tasks) == 1:\n			s.giveBack(",
		}},
		Torture: crowded, By: []string{"I1"},
	},
	{
		Name:   "batch-keeps-failed-writes",
		Breaks: "what a failed job of a batch wrote is committed with those before it",
		Edits: []Edit{{
			loanFile, "	if !l.loan.taken() && l.pg().TxStatus() == 'T' {",
			"	if l.hold != nil && len(l.hold.Rest) > 0 && l.pg().TxStatus() == 'T' {",
		}},
		Torture: crowded, By: []string{"I5"},
	},
	{
		Name:   "batch-behind-what-is-not-next",
		Breaks: "a batch takes the jobs behind its head from the end of the group",
		Edits: []Edit{{
			claimBatchFile, "ORDER BY b.queue, b.group_id, b.id\n",
			"ORDER BY b.queue, b.group_id, (b.id > (SELECT min(h.id) FROM pgfifo.jobs h\n" +
				"WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3)), b.id DESC\n",
		}},
		Torture: crowded, By: []string{"I4"},
	},
	{
		Name:   "batch-failure-not-there",
		Breaks: "a batch is committed, and told as given back, although a failed job of it was deleted meanwhile",
		Edits:  []Edit{{handleFile, "len(a.charged) > 0 && len(a.results) > 1", "len(a.charged) > len(a.results)"}},
		Test:   Test{"fifo", "TestFailedJobOfABatchIsDeleted"},
	},
	{
		Name:   "batch-not-counted",
		Breaks: "a batch is taken to be done although some of its jobs were not there any more",
		Edits: []Edit{{
			"fifo/sql/succeed_batch.sql", "CASE WHEN count(*) <> pg_catalog.cardinality($2::bigint[])",
			"CASE WHEN count(*) > pg_catalog.cardinality($2::bigint[])",
		}},
		Test: Test{"fifo", "TestOperatorInABatch"},
	},
	{
		Name:   "failed-job-in-company",
		Breaks: "a job that has failed runs in a batch again, and takes the others down with it",
		Edits: []Edit{{
			"internal/lease/hold.go",
			"	return h.Attempts > 0 || h.MaxAttempts == 1", "	return h.MaxAttempts == 1",
		}},
		Test: Test{"fifo", "TestPoisonInABatch|TestOneAtATimeAfterAFailure|TestWhoRunsAlone"},
	},
}
