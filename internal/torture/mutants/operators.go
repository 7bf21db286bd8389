package mutants

// operators are bugs of what operators do to jobs, groups and queues.
var operators = []Mutant{
	{
		Name:   "verbs-wait-for-a-running-job",
		Breaks: "an operator who has a running job tried at once waits for its end",
		Edits: []Edit{{
			"fifo/sql/lock_job.sql", "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE",
		}},
		Test: Test{"fifo", "TestVerbsPassOverARunningJob"},
	},
	{
		Name:   "edit-is-not-checked",
		Breaks: "an operator's edit stores what no message may have",
		Edits: []Edit{{
			"fifo/verbs.go", "Message{Payload: job.Payload, Headers: job.Headers}.encodeContent()",
			"Message{Payload: job.Payload[:min(9, len(job.Payload))]}.encodeContent()",
		}},
		Test: Test{"fifo", "TestEditIsChecked"},
	},
	{
		Name:   "block-waits",
		Breaks: "whoever keeps a pause in an open transaction takes lanes away from other groups",
		Edits:  []Edit{{schemaFile, " SET lock_timeout = '20ms'", ""}},
		Test:   Test{"fifo", "TestBlockBesideAnOpenPause"},
	},
	{
		Name:   "next-of-a-head-is-not-due",
		Breaks: "beside many delayed groups, the job behind a delayed head that is deleted waits for a walk",
		Edits:  []Edit{{"fifo/sql/take_out.sql", "AND j.id > $3 AND coalesce(", "AND false AND coalesce("}},
		Test:   Test{"fifo", "TestNextOfADelayedHead"},
	},
	{
		Name:   "move-turns-round",
		Breaks: "jobs that are moved to another group change their order",
		Edits:  []Edit{{"fifo/sql/move.sql", "ORDER BY g.id", "ORDER BY g.id DESC"}},
		Test:   Test{"fifo", "TestMove"},
	},
	{
		Name:   "move-before-a-commit",
		Breaks: "in the order of commits, what is moved overtakes what was enqueued before",
		Edits:  []Edit{{"fifo/sql/move.sql", "WHERE $5::boolean", "WHERE NOT $5::boolean"}},
		Test:   Test{"fifo", "TestMoveInTheOrderOfCommits"},
	},
	{
		Name:   "cancel-counts",
		Breaks: "a job that an operator cancels is charged an attempt",
		Edits: []Edit{{
			"fifo/errors.go", "errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrCanceled)",
			"errors.Is(cause, ErrShutdown)",
		}},
		Test: Test{"fifo", "TestCancel"},
	},
	{
		Name:   "cancel-by-anybody",
		Breaks: "a notice cancels what runs, whoever sent it",
		Edits:  []Edit{{"fifo/held.go", "case !r.paused:", "case false:"}},
		Test:   Test{"fifo", "TestCancel"},
	},
	{
		Name:   "wait-for-what-waits",
		Breaks: "waiting for the end of a queue does not wait for the jobs that run",
		Edits:  []Edit{{"fifo/sql/any.sql", "WHERE j.queue", "WHERE j.xmax::text = '0' AND j.queue"}},
		Test:   Test{"fifo", "TestWaitEmpty"},
	},
}
