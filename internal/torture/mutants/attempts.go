package mutants

// deadly kills workers in the middle of jobs. There are so few jobs that none of them kills its worker by itself.
var deadly = []string{"-jobs", "1400", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-kills", "8"}

// poisonous has some jobs that kill their workers.
var poisonous = []string{"-jobs", "4500", "-groups", "60", "-processes", "3", "-lanes", "4", "-batch", "1"}

// killing has jobs that kill their workers, and does nothing else to them.
var killing = append(poisonous[:len(poisonous):len(poisonous)], "-only", "exit,kill")

// operated has an operator look at jobs that wait.
var operated = append(contended[:len(contended):len(contended)], "-operators", "20")

// vacuumed has the server take away what locks tell, when all workers have died.
var vacuumed = []string{
	"-jobs", "1500", "-groups", "40", "-processes", "3", "-lanes", "3", "-batch", "1", "-vacuums", "12",
	"-only", "error,slow",
}

const (
	attemptFile = "fifo/attempt.go"
	markFile    = "internal/lease/mark.go"
)

// looksAtClaim is the last statement of a mark.
const looksAtClaim = "		b.Queue(claimOpenSQL, xids[0]).QueryRow(" +
	"func(row pgx.Row) error { return row.Scan(&held) })\n"

var attempts = []Mutant{
	{
		Name:    "lost-attempt-not-counted",
		Breaks:  "an attempt that died with its worker is not counted",
		Edits:   []Edit{{laneFile, "		if died {\n", "		if died && l.hold == nil {\n"}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name: "lost-attempt-counted-in-the-job",
		Breaks: "a lost attempt is counted in the transaction of the next one, " +
			"which takes it back when it fails or dies",
		Edits: []Edit{{
			attemptFile, "is gone when this transaction ends\n		s.lost(a, claim, lost)\n		return a\n",
			"\n		for _, h := range lost {\n			h.Attempts++\n		}\n",
		}},
		Torture: poisonous, By: []string{"I6"},
	},
	{
		Name:   "evidence-of-a-commit",
		Breaks: "every earlier claim that ended is taken for a crash, also one that was settled",
		Edits: []Edit{{
			"internal/lease/sql/evidence.sql", "pg_xact_status(w.xid::text::xid8) = 'aborted'",
			"pg_xact_status(w.xid::text::xid8) <> 'in progress'",
		}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "evidence-read-above-the-lock",
		Breaks: "who locked the head before is read after it was locked: it is always the reader",
		Edits: []Edit{{
			claimFile, "       j.xmax AS job_xid,", "       pg_current_xact_id()::xid AS job_xid,",
		}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:   "given-back-by-rollback",
		Breaks: "a claim that is given back unworked is rolled back, which looks like a crash",
		Edits: []Edit{{
			laneFile, "	case next != nil:\n		p.send(stmtChain",
			"	case next != nil && len(calls) == 0:\n		p.SendQueryParams(\"ROLLBACK " +
				"AND CHAIN\", nil, nil, nil, nil)\n" +
				"	case next != nil:\n		p.send(stmtChain",
		}},
		Test: Test{"internal/lease", "TestWhatIsNotLost"},
	},
	{
		Name:   "poison-has-a-life-more",
		Breaks: "a job is tried once more than it may be",
		Edits: []Edit{{
			attemptFile, "if job.Attempt() >= job.MaxAttempts ||", "if job.Attempt() > job.MaxAttempts ||",
		}},
		Torture: poisonous, By: []string{"I6"},
	},
	{
		Name:    "poison-lives-for-ever",
		Breaks:  "a job that kills its workers is never a dead letter",
		Edits:   []Edit{{attemptFile, "if job.Attempt() >= job.MaxAttempts ||", "if job.Attempt() < 0 ||"}},
		Torture: poisonous, By: []string{"I6", "I8"},
	},
	{
		Name:   "retry-goes-behind",
		Breaks: "a job that failed is tried again under a new id, at the end of its group",
		Edits: []Edit{{
			"fifo/sql/retry.sql", "SET attempts = attempts + 1,",
			"SET id = nextval(pg_get_serial_sequence('pgfifo.jobs', 'id')), attempts = attempts + 1,",
		}},
		Torture: contended, By: []string{"I4", "I1"},
	},
	{
		Name:    "failure-not-counted",
		Breaks:  "an attempt that failed is not counted",
		Edits:   []Edit{{"fifo/sql/retry.sql", "SET attempts = attempts + 1,", "SET attempts = attempts,"}},
		Torture: deadly, By: []string{"I6"},
	},
	{
		Name:    "operator-taken-for-a-crash",
		Breaks:  "whoever locked the job's row without the group's, and rolled back, is taken for a worker that died",
		Edits:   []Edit{{"internal/lease/hold.go", "	if job != group {\n", "	if job == 0 {\n"}},
		Torture: operated, By: []string{"I6"},
	},
	{
		Name:   "mark-not-written",
		Breaks: "an attempt is not marked before it begins: what VACUUM takes away is not counted",
		Edits: []Edit{{
			attemptFile, "(s.begun < tuning.Many || h.Attempts > 0 || h.Shared)", "s.begun < -tuning.Many",
		}},
		Torture: vacuumed, By: []string{"I6"},
	},
	{
		Name:   "mark-not-taken-back",
		Breaks: "an attempt that was given back keeps its mark, and is taken for one that died",
		Edits:  []Edit{{laneFile, "	if len(l.marked) > 0 {\n", "	if len(l.marked) > 0 && l.hold == nil {\n"}},
		Test:   Test{"fifo", "TestDrainTimeout"},
	},
	{
		Name:   "mark-found-by-few",
		Breaks: "a mark is looked at only by a lane that has claimed as little as the one that made it",
		Edits:  []Edit{{laneFile, "		if h.marked {\n", "		if h.marked && h.Attempts > 0 {\n"}},
		Test:   Test{"fifo", "TestMarkIsFoundByAll"},
	},
	{
		Name:   "refused-batch-frees-its-groups",
		Breaks: "a batch that cannot be committed frees its groups before it can say that nobody has died",
		Edits:  []Edit{{savepointFile, "	case l.batch:\n", "	case l.batch && s.behind < 0:\n"}},
		Test:   Test{"fifo", "TestBatchThatIsRefused"},
	},
	{
		Name:   "cursor-refuses-the-batch",
		Breaks: "a cursor WITH HOLD whose query fails has the COMMIT of a batch refused, which frees its groups",
		Edits: []Edit{{
			savepointFile, "		send(stmtCursors, &s.released)", "		send(stmtConstraints, &s.released)",
		}},
		Test: Test{"internal/lease", "TestCursorOfABatch"},
	},
	{
		Name:    "lost-retried-at-once",
		Breaks:  "a job that kills its worker does not wait before it kills the next one",
		Edits:   []Edit{{attemptFile, "s.delay(t.place, t.job, diedError{})", "0"}},
		Torture: killing, By: []string{"I6"},
	},
	{
		Name: "suspects-together",
		Breaks: "jobs whose last attempt died begin beside each other, and one that kills takes the others " +
			"with it again",
		Edits: []Edit{{attemptFile, "	if hold.Suspect {\n", "	if hold.Suspect && hold == nil {\n"}},
		Test:  Test{"fifo", "TestSuspectsBeginOneByOne"},
	},
	{
		Name:   "whole-batch-charged",
		Breaks: "when a batch dies in its COMMIT, all of its jobs are charged",
		Edits: []Edit{
			{
				"internal/lease/claim.go",
				"	if hold.alone() || hold.lastXID != 0 || hold.marked {\n", "	if hold.alone() {\n",
			},
			{"internal/lease/claim.go", "h.Rest[i].Key != h.Key && !yield", "!yield"},
		},
		Test: Test{"fifo", "TestBatchThatDiesInItsCommit"},
	},
	{
		Name: "recorded-without-its-number",
		Breaks: "a failure that is recorded on another connection is counted also if somebody else has counted " +
			"the attempt",
		Edits: []Edit{
			{"fifo/sql/retry.sql", " AND attempts = $4::integer", " AND $4::integer >= 0"},
			{"fifo/sql/bury.sql", " AND attempts = $4::integer", " AND $4::integer >= 0"},
		},
		Test: Test{"fifo", "TestRecordedOnce"},
	},
	{
		Name: "record-that-comes-late-is-evidence",
		Breaks: "who records a failure that somebody else has counted leaves what looks like a death: the attempt is " +
			"counted again",
		Edits: []Edit{
			{recordFile, `id = $3 AND attempts = $4 " +`, `id = $3 AND $4::integer >= 0 " +`},
			{
				recordFile, "pg.Exec(ctx, commitSQL).ReadAll(); err != nil { // also",
				"pg.Exec(ctx, map[bool]string{true: commitSQL, false: `ROLLBACK`}[held]).ReadAll(); " +
					"err != nil { // also",
			},
		},
		Test: Test{"internal/lease", "TestLateRecordIsNoEvidence"},
	},
	{
		Name:   "late-mark-is-made",
		Breaks: "a mark that comes when its claim has ended stays, and an attempt counts that was given back",
		Edits: []Edit{{
			"internal/lease/sql/mark.sql", "WHERE pg_xact_status(k.xid::text::xid8) = 'in progress'", "WHERE k.xid > 0",
		}},
		Test: Test{"internal/lease", "TestMarkThatComesLate"},
	},
	{
		Name:   "begins-behind-a-lost-claim",
		Breaks: "an attempt begins whose claim had ended before it was marked, and is not counted",
		Edits: []Edit{{
			markFile, "err == nil && !held", "err == nil && held && false",
		}},
		Test: Test{"internal/lease", "TestMarkThatComesLate"},
	},
	{
		Name:   "mark-behind-a-lower-id",
		Breaks: "a lost attempt that was marked is not counted, because a lower id became the head of its batch",
		Edits: []Edit{{
			"internal/lease/claim.go", "h.Payload == nil || h.alone() || h.marked", "h.Payload == nil || h.alone()",
		}},
		Test: Test{"internal/lease", "TestLostHeadBehindALowerID"},
	},
	{
		Name:   "lock-timeout-of-heads",
		Breaks: "a batch is undone because a lock on a table takes longer than a lock on a job behind its heads may",
		Edits: []Edit{{
			savepointFile, "TO DEFAULT", "= '1s'",
		}},
		Test: Test{"fifo", "TestBatchWaitsForALockOnATable"},
	},
	{
		Name:   "lock-timeout-of-the-table",
		Breaks: "a batch is undone because a lock on the jobs table takes longer than one on a job behind its head may",
		Edits:  []Edit{{savepointFile, "		send(stmtLockTable, &s.released)\n", ""}},
		Test:   Test{"fifo", "TestBatchWaitsForALockOnATable"},
	},
	{
		Name:   "claim-kept-beside-hooks",
		Breaks: "what is claimed beside a slow hook waits for it, and begins though it was paused",
		Edits:  []Edit{{"fifo/settle.go", "within(tuning.Look, done)", "within(60*tuning.Long, done)"}},
		Test:   Test{"fifo", "TestHooksKeepNoClaim"},
	},
	{
		Name:    "group-attempt-not-marked",
		Breaks:  "a death is not counted where several jobs of a group run, or nothing starts behind the first",
		Edits:   []Edit{{"fifo/attempt.go", " || h.Shared)", ")"}},
		Torture: several, By: []string{"I6"},
	},
	{
		Name:   "snooze-counts",
		Breaks: "a job that its handler gives back until later is charged an attempt",
		Edits: []Edit{{
			"fifo/sql/snooze.sql", "SET run_at = statement_timestamp()", "SET attempts = attempts + 1, run_at = now()",
		}},
		Test: Test{"fifo", "TestSnooze"},
	},
	{
		Name:    "unavailable-counts",
		Breaks:  "a job whose handler says that what it needs is down is charged an attempt",
		Edits:   []Edit{{"fifo/snooze.go", "return (snoozed || IsUnavailable(err)) &&", "return snoozed &&"}},
		Torture: crowded, By: []string{"I6"},
	},
	{
		Name:   "blocked-group-goes-on",
		Breaks: "what is behind a job that has used up its attempts overtakes it, though the queue is to block",
		Edits: []Edit{{
			"fifo/sql/block.sql", "block_group(queue, group_id, id", "block_group(queue, group_id || '?', id",
		}},
		Test: Test{"fifo", "TestBlockedGroup"},
	},
	{
		Name:   "moved-job-forgets",
		Breaks: "a job that moves to a queue of dead letters does not say where it was",
		Edits:  []Edit{{"fifo/sql/forward.sql", "'pgfifo-origin-id', id::text", "'pgfifo-origin-id', attempts::text"}},
		Test:   Test{"fifo", "TestDeadLetterQueue"},
	},
	{
		Name:   "verbs-take-the-job-that-calls",
		Breaks: "a handler that moves or purges what waits in its group takes its own job along, which is done twice",
		Edits: []Edit{{
			schemaFile, "SELECT EXISTS (SELECT FROM pgfifo.queue_groups g WHERE",
			"SELECT EXISTS (SELECT FROM pgfifo.queue_groups g WHERE false AND",
		}},
		Test: Test{"fifo", "TestVerbsPassOverTheJobThatCalls"},
	},
	{
		Name:   "block-outlives-its-job",
		Breaks: "a group stays blocked by a job that was taken away",
		Edits:  []Edit{{"fifo/sql/unblock.sql", "p.job IS NOT NULL", "false"}},
		Test:   Test{"fifo", "TestBlockWithoutItsJob"},
	},
	{
		Name:   "block-outlives-its-job-in-a-pause",
		Breaks: "a group that is paused while the job that blocks it is taken away stays blocked by it",
		Edits:  []Edit{{"fifo/sql/unblock.sql", "    FOR UPDATE OF p\n", ""}},
		Test:   Test{"fifo", "TestPauseBesideABlockThatGoes"},
	},
	{
		Name:   "begins-unmarked-of-several",
		Breaks: "where several jobs of a group may run, an attempt begins that nothing would tell of",
		Edits:  []Edit{{attemptFile, "if heads[0].Shared {", "if false {"}},
		Test:   Test{"fifo", "TestNothingBeginsUnmarkedOfSeveral"},
	},
	{
		Name:   "claim-ends-in-its-mark",
		Breaks: "an attempt begins whose claim has ended before its mark was committed, and is not counted",
		Edits: []Edit{
			{markFile, "		b.Queue(beginSQL)\n", "		b.Queue(beginSQL)\n" + looksAtClaim},
			{markFile, "		b.Queue(commitSQL)\n" + looksAtClaim, "		b.Queue(commitSQL)\n"},
		},
		Test: Test{"internal/lease", "TestClaimThatEndsInItsMark"},
	},
	{
		Name:   "late-record-covers-a-crash",
		Breaks: "a worker that gives a lost claim back covers the death of one that has claimed the group since",
		Edits:  []Edit{{"internal/lease/sql/relock.sql", "'committed') = 'committed'", "'committed') > ''"}},
		Test:   Test{"internal/lease", "TestLateRecordLeavesEvidence"},
	},
	{
		Name:   "policy-without-heartbeats",
		Breaks: "nobody says anything to the server while a Retry takes its time: the attempt is lost",
		Edits: []Edit{{
			"fifo/attempt.go", "	s.lane.Aside(func() {\n		s.crew.worker",
			"	func(f func()) { f() }(func() {\n		s.crew.worker",
		}},
		Test: Test{"fifo", "TestRetryThatTakesItsTime"},
	},
	{
		Name:   "policy-ends-the-lane",
		Breaks: "a Retry that ends its goroutine ends a lane",
		Edits:  []Edit{{"fifo/attempt.go", `guardLane("Retry"`, `guard("Retry"`}},
		Test:   Test{"fifo", "TestRetryThatEnds"},
	},
	{
		Name:   "overdue-hook-waited-for",
		Breaks: "a handler is not abandoned while a hook that is told of it blocks",
		Edits:  []Edit{{"fifo/overdue.go", "			go func() { // a hook", "			func() { // a hook"}},
		Test:   Test{"fifo", "TestAbandonBesideAHook"},
	},
	{
		Name:   "wrapping-dropped",
		Breaks: "a DeadLetter around a BatchError is not heeded",
		Edits:  []Edit{{"fifo/handle.go", "return e.within(around), true\n", "return e, true\n"}},
		Test:   Test{"fifo", "TestBatchErrors"},
	},
}
