package mutants

// deadly kills workers in the middle of jobs. There are so few jobs that none of them kills its worker by itself.
var deadly = []string{"-jobs", "1400", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-kills", "8"}

// poisonous has some jobs that kill their workers.
var poisonous = []string{"-jobs", "4500", "-groups", "60", "-processes", "3", "-lanes", "4", "-batch", "1"}

const attemptFile = "fifo/attempt.go"

var attempts = []Mutant{
	{
		Name:    "lost-attempt-not-counted",
		Breaks:  "an attempt that died with its worker is not counted",
		Edits:   []Edit{{laneFile, "		if died {\n", "		if died && l.hold == nil {\n"}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "lost-attempt-counted-in-the-job",
		Breaks: "a lost attempt is counted in the transaction of the next one, which takes it back when it fails or dies",
		Edits: []Edit{{
			attemptFile, "		s.lost(a, claim, lost)\n		return a\n",
			"		for _, h := range lost {\n			h.Attempts++\n		}\n",
		}},
		Torture: poisonous, By: []string{"I6"},
	},
	{
		Name:    "evidence-of-a-commit",
		Breaks:  "every earlier claim that ended is taken for a crash, also one that was settled",
		Edits:   []Edit{{"groups/sql/evidence.sql", "pg_xact_status(w.xid::text::xid8) = 'aborted'", "pg_xact_status(w.xid::text::xid8) <> 'in progress'"}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "evidence-read-above-the-lock",
		Breaks: "who locked the head before is read after it was locked: it is always the reader",
		Edits: []Edit{{
			claimFile, "       j.job_xid,", "       pg_current_xact_id()::xid AS job_xid,",
		}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "given-back-by-rollback",
		Breaks: "a claim that is given back unworked is rolled back, which looks like a crash",
		Edits: []Edit{{
			laneFile, "	case next != nil:\n		pipeline.SendQueryStatement(l.stmts[stmtChain]",
			"	case next != nil && len(calls) == 0:\n		pipeline.SendQueryParams(\"ROLLBACK AND CHAIN\", nil, nil, nil, nil)\n" +
				"	case next != nil:\n		pipeline.SendQueryStatement(l.stmts[stmtChain]",
		}},
		Torture: contended, By: []string{"I6"},
	},
	{
		Name:    "poison-has-a-life-more",
		Breaks:  "a job is tried once more than it may be",
		Edits:   []Edit{{attemptFile, "final := job.Attempt() >= job.MaxAttempts", "final := job.Attempt() > job.MaxAttempts"}},
		Torture: poisonous, By: []string{"I6"},
	},
	{
		Name:    "poison-lives-for-ever",
		Breaks:  "a job that kills its workers is never a dead letter",
		Edits:   []Edit{{attemptFile, "final := job.Attempt() >= job.MaxAttempts", "final := job.Attempt() < 0"}},
		Torture: poisonous, By: []string{"I6", "I8"},
	},
	{
		Name:    "retry-goes-behind",
		Breaks:  "a job that failed is tried again under a new id, at the end of its group",
		Edits:   []Edit{{"fifo/sql/retry.sql", "SET attempts = attempts + 1,", "SET id = nextval(pg_get_serial_sequence('pgfifo.jobs', 'id')), attempts = attempts + 1,"}},
		Torture: contended, By: []string{"I4", "I1"},
	},
	{
		Name:    "failure-not-counted",
		Breaks:  "an attempt that failed is not counted",
		Edits:   []Edit{{"fifo/sql/retry.sql", "SET attempts = attempts + 1,", "SET attempts = attempts,"}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "operator-taken-for-a-crash",
		Breaks: "whoever locked the job's row without the group's, and rolled back, is taken for a worker that died",
		Edits:  []Edit{{"groups/hold.go", "	if group == 0 || int32(group-job) < 0 {", "	if group == 0 && job == 0 {"}},
		Test:   Test{"groups", "TestWhatIsNotLost|TestClaimer"},
	},
}
