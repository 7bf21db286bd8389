package mutants

const failedFile = "internal/lease/failed.go"

var told = []Mutant{
	{
		Name:   "silence-is-ready",
		Breaks: "a worker is ready although its server says nothing any more",
		Edits:  []Edit{{scoutFile, "		return *at\n", "		return time.Now()\n"}},
		Test:   Test{"fifo", "TestReady"},
	},
	{
		Name:   "failed-look-counts",
		Breaks: "a worker is ready although it cannot look for work",
		Edits: []Edit{{
			scoutFile, "	view, looked := s.view(), false\n",
			"	view, looked, now := s.view(), false, time.Now()\n	s.looked.Store(&now)\n",
		}},
		Test: Test{"fifo", "TestNotReadyWithoutLooks"},
	},
	{
		Name:   "lanes-without-connections-are-ready",
		Breaks: "a worker is ready although no lane has a connection",
		Edits:  []Edit{{"fifo/ready.go", "	if c.connected() > 0 {\n", "	if c.connected() >= 0 {\n"}},
		Test:   Test{"fifo", "TestReady"},
	},
	{
		Name:   "full-line-unready",
		Breaks: "a worker that has more to do than it can keep in mind is not ready",
		Edits: []Edit{{
			scoutFile, "	if !looked && s.nextCall() <= 0 {\n", "	if !looked && conn == nil {\n",
		}},
		Test: Test{"internal/schedule", "TestScoutWithAFullLineAsks"},
	},
	{
		Name:   "unhandled-queue-told-again",
		Breaks: "each sweep logs the same queue without a handler again",
		Edits:  []Edit{{"fifo/unhandled.go", "	o.told[f.Queue] = true\n", "	o.told[f.Queue] = false\n"}},
		Test:   Test{"fifo", "TestUnhandledQueueIsTold"},
	},
	{
		Name:   "held-queue-unhandled",
		Breaks: "a queue is said to wait whose job somebody runs",
		Edits:  []Edit{{"internal/schedule/firsts.go", "c.Holder == 0 && !c.Paused", "!c.Paused"}},
		Test:   Test{"fifo", "TestUnhandledQueueIsTold"},
	},
	{
		Name:   "savepoint-holds-nobody",
		Breaks: "a job that somebody changes in a savepoint is said to wait for a worker",
		Edits:  []Edit{{"fifo/sql/groups.sql", "= 'in progress'", "= 'unknown'"}},
		Test:   Test{"fifo", "TestWhyOfAnEdit"},
	},
	{
		Name:   "full-group-blames-its-queue",
		Breaks: "a job behind as many of its group as may run is told that its queue is at its limit",
		Edits:  []Edit{{"fifo/status.go", "&g.overLimit, &g.groupFull)", "&g.groupFull, &g.overLimit)"}},
		Test:   Test{"fifo", "TestFullGroupDoesNotSpin"},
	},
	{
		Name:   "last-statement-told",
		Breaks: "a handler that swallowed an error is told of the last statement that failed, instead of the first",
		Edits:  []Edit{{failedFile, "	case w.first == nil && errors.As(", "	case errors.As("}},
		Test:   Test{"internal/lease", "TestNotRolledBack"},
	},
	{
		Name:   "value-told",
		Breaks: "the log has a value that a failed statement was given",
		Edits: []Edit{{
			failedFile, "slices.Contains(naming, code[:2]) &&",
			"(slices.Contains(naming, code[:2]) || code != \"\") &&",
		}},
		Test: Test{"internal/lease", "TestNotRolledBack"},
	},
}
