package mutants

const (
	loanFile       = "internal/lease/loan.go"
	statementsFile = "internal/lease/statements.go"
)

// setting has handlers that change their sessions.
var setting = append(contended[:len(contended):len(contended)], "-only", "set")

// keeping has handlers that keep something of their transactions.
var keeping = append(contended[:len(contended):len(contended)], "-only", "keep")

// leaving has handlers that return while a statement is under way.
var leaving = append(contended[:len(contended):len(contended)], "-only", "inflight")

var effects = []Mutant{
	{
		Name:   "no-savepoint",
		Breaks: "what a failed attempt wrote is committed with the record of its failure",
		Edits: []Edit{{
			loanFile, "	if !l.loan.taken() && l.pg().TxStatus() == 'T' {", "	if l.pg().TxStatus() == 'T' {",
		}},
		Torture: contended, By: []string{"I5"},
	},
	{
		Name:    "effects-undone",
		Breaks:  "what a handler wrote is undone although its job is done",
		Edits:   []Edit{{savepointFile, "stmtRelease:      releaseOuter", "stmtRelease:      undoOuter"}},
		Torture: contended, By: []string{"I1", "I5"},
	},
	{
		Name:   "relaxed-for-good",
		Breaks: "a lane that has completed a job of a relaxed queue lets no commit wait for the disk any more",
		Edits:  []Edit{{"fifo/sql/relax.sql", "'off', true)", "'off', false)"}},
		Test:   Test{"fifo", "TestRelaxed"},
	},
	{
		Name:   "relaxed-failures",
		Breaks: "what a relaxed queue records of a job that failed beside others is lost in a crash of the server",
		Edits:  []Edit{{"fifo/handle.go", "len(done) > 0 && len(a.charged) == 0 {", "len(done) > 0 {"}},
		Test:   Test{"fifo", "TestRelaxed"},
	},
	{
		Name:   "job-not-deleted",
		Breaks: "the effects of an attempt are committed now and then though the job stays, and runs again",
		Edits: []Edit{
			{
				"fifo/sql/succeed_used.sql", "DELETE FROM pgfifo.jobs WHERE",
				"DELETE FROM pgfifo.jobs WHERE (id % 20 <> 0 OR enqueued_at < now() - interval '1 s') AND",
			},
			{"fifo/sql/succeed_used.sql", "WHEN count(*) = 0\n", "WHEN count(*) < 0\n"},
		},
		Torture: contended, By: []string{"I5"},
	},
	{
		Name:   "dead-letter-kept",
		Breaks: "a dead letter stays among the jobs",
		Edits: []Edit{{
			"fifo/sql/bury.sql",
			"DELETE FROM pgfifo.jobs\n    WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer\n" +
				"    RETURNING *",
			"SELECT * FROM pgfifo.jobs\n    WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer",
		}},
		Torture: contended, By: []string{"I6", "I5", "I8"},
	},
	{
		Name:   "dead-letter-dropped",
		Breaks: "a job that is given up is deleted, and no dead letter made",
		Edits: []Edit{
			{"fifo/sql/bury.sql", "FROM job\n    RETURNING 1", "FROM job WHERE false\n    RETURNING 1"},
			{"fifo/sql/bury.sql", "NOT EXISTS (SELECT FROM letter)", "false"},
		},
		Torture: contended, By: []string{"I1"},
	},
	{
		Name:   "swallowed-error-taken-for-success",
		Breaks: "a handler that returns nil although a statement failed has not failed: the COMMIT is a rollback",
		Edits: []Edit{{
			loanFile,
			"	case 'E':\n		return l.wire.notRolledBack()\n",
			"	case 'E':\n		_, _ = l.pg().Exec(context.Background(), undoOuter).ReadAll()\n" +
				"		return nil\n",
		}},
		Torture: contended, By: []string{"I1"},
	},
	{
		Name:   "settled-without-the-row",
		Breaks: "a job is taken to be settled although no row was changed",
		Edits: []Edit{{
			savepointFile, "(!part.rows || tag.RowsAffected() == 1)", "(!part.rows || tag.RowsAffected() >= 0)",
		}},
		Test: Test{"internal/lease", "TestStepSettles|TestFailedStepIsNotLost"},
	},
	{
		Name:   "transaction-not-checked",
		Breaks: "a job is completed in whatever transaction its handler left, also when that holds nothing",
		Edits: []Edit{{
			"internal/lease/settling.go", "$1::pg_catalog.text\\n            THEN",
			"$1::pg_catalog.text AND false\\n            THEN",
		}},
		Test: Test{"internal/lease", "TestHandlerThatEndsTheTransaction"},
	},
	{
		Name:    "role-of-the-handler",
		Breaks:  "a job is settled with the role that its handler has taken on",
		Edits:   []Edit{{"internal/lease/settling.go", "\"role\", ", ""}},
		Torture: setting, By: []string{"I6", "I11"},
	},
	{
		Name:    "encoding-of-the-handler",
		Breaks:  "a job is settled with the encoding that its handler has set",
		Edits:   []Edit{{"internal/lease/settling.go", "\"client_encoding\", ", ""}},
		Torture: setting, By: []string{"I6"},
	},
	{
		Name: "done-job-named-by-its-place",
		Breaks: "a job whose handler had the transaction is deleted by its ctid: " +
			"a handler that moved the row runs again",
		Edits: []Edit{{handleFile, "		if used {\n", "		if used && len(done) == 0 {\n"}},
		Test:  Test{".", "TestMisuse"},
	},
	{
		Name:   "session-left-spoiled",
		Breaks: "a session in which a handler ran SET or DISCARD goes on to the next job",
		Edits:  []Edit{{"internal/lease/spoil.go", "{ return l.stream.spoiled.Load() }", "{ return l.stream == nil }"}},
		Test:   Test{"internal/lease", "TestSpoiledLane"},
	},
	{
		Name:   "transaction-usable-after-the-end",
		Breaks: "a handler's transaction can be used when its job has ended, in the next job's",
		Edits: []Edit{{
			savepointFile, "	if l.ended {\n		return nil",
			"	if l.ended && l.lane == nil {\n		return nil",
		}},
		Test: Test{"internal/lease", "TestTransactionAfterTheEnd"},
	},
	{
		Name:   "nested-outlives-its-job",
		Breaks: "what was begun on a handler's transaction can be used when its job has ended, in the next job's",
		Edits: []Edit{{
			nestedPgxFile, "	if t.loan.ended {\n", "	if t.loan.ended && t.parent == nil {\n",
		}},
		Torture: keeping, By: []string{"I5", "I6", "I3"},
	},
	{
		Name:   "rollback-not-sent",
		Breaks: "what a handler rolls back when its context has ended stays, and is committed",
		Edits: []Edit{{
			savepointFile, "context.WithTimeout(context.WithoutCancel(ctx), l.lane.silent)",
			"context.WithTimeout(ctx, l.lane.silent)",
		}},
		Test: Test{"internal/lease", "TestTransactionsSideBySide"},
	},
	{
		Name:   "rollback-that-failed-forgotten",
		Breaks: "what a handler could not roll back is committed",
		Edits:  []Edit{{savepointFile, "		l.spilt = fmt.Errorf", "		_ = fmt.Errorf"}},
		Test:   Test{"internal/lease", "TestRollbackBesideOpenRows"},
	},
	{
		Name: "savepoint-by-hand-overlooked",
		Breaks: "a transaction goes on although it began behind a savepoint of bun's, or of the handler's, " +
			"that is gone back to",
		Edits: []Edit{{savepointFile, "l.cutBehind(l.byHand[i].nests, i+1)", "l.cutBehind(len(l.nests), i+1)"}},
		Test:  Test{"internal/lease", "TestTransactionsSideBySide"},
	},
	{
		Name: "savepoint-outlives-its-rollback",
		Breaks: "a handler cannot succeed that has rolled back what was around one of bun's transactions, " +
			"if the context of that has ended since",
		Edits: []Edit{{savepointFile, "	l.cutBehind(i+1, hand)\n", "	l.cutBehind(i+1, len(l.byHand))\n"}},
		Test:  Test{"internal/lease", "TestTransactionsSideBySide"},
	},
	{
		Name: "merged-outlives-its-rollback",
		Breaks: "what is written through a transaction is kept although the one around it was rolled back, " +
			"if one of bun's in between was committed",
		Edits: []Edit{{savepointFile, "		ended = append(ended, m.merged...)\n", "		_ = m\n"}},
		Test:  Test{"internal/lease", "TestTransactionsSideBySide"},
	},
	{
		Name: "savepoint-of-the-handlers",
		Breaks: "an attempt that fails goes back to a savepoint of the handler's, " +
			"if that has the name of the library's",
		Edits: []Edit{{savepointFile, `= "pgfifo_" + process`, `= "pgfifo"`}},
		Test:  Test{"internal/lease", "TestSavepointsByAnyName"},
	},
	{
		Name:   "bun-rollback-not-sent",
		Breaks: "what bun rolls back when its context has ended stays, and is committed",
		Edits: []Edit{{
			nestedBunFile, "		return context.WithoutCancel(ctx)\n	case t.sold:",
			"		return ctx\n	case t.sold:",
		}},
		Test: Test{"internal/lease", "TestTransactionsSideBySide"},
	},
	{
		Name:   "statement-between-two-jobs",
		Breaks: "a statement of a handler that has returned is sent into the next job's transaction",
		Edits:  []Edit{{nestedPgxFile, "	t.loan.busy++\n", ""}},
		Test:   Test{"internal/lease", "TestStatementHeldBack"},
	},
	{
		Name:   "cursor-reaches-the-next-job",
		Breaks: "a cursor WITH HOLD can be read by the next job",
		Edits:  []Edit{{"internal/lease/spoil.go", `ToLower(rest), "hold")`, `ToLower(rest), "held")`}},
		Test:   Test{"internal/lease", "TestSpoils"},
	},
	{
		Name:   "handler-says-which-job-it-was",
		Breaks: "the job that is settled is what the handler has made of its Job",
		Edits:  []Edit{{"fifo/attempt.go", "		s.restore(job, tasks[i].held)\n", "		_, _ = i, job\n"}},
		Test:   Test{"fifo", "TestHandlerChangesItsJob"},
	},
	{
		Name:    "statement-waited-for",
		Breaks:  "a lane waits for a statement that is under way when its handler returns",
		Edits:   []Edit{{loanFile, "busy = l.busy > 0", "busy = l.busy > 1<<30"}},
		Torture: leaving, By: []string{"I12", "I8"},
	},
	{
		Name:   "own-transaction",
		Breaks: "a job's transaction is one of the pool's if a query hook makes a context of its own",
		Edits: []Edit{{
			nestedBunFile, "db.WithQueryHook(t).BeginTx(context.WithoutCancel(ctx), nil)\n",
			"db.BeginTx(context.WithValue(context.WithoutCancel(ctx), ticketKey{}, t), nil)\n",
		}, {nestedBunFile, "	if !t.used.Load() { //", "	if t.loan == nil { //"}},
		Test: Test{"fifo", "TestTxWithHooksThatMeddle"},
	},
	{
		Name:   "savepoints-in-pairs",
		Breaks: "each call for the transaction makes a savepoint",
		Edits: []Edit{{
			nestedPgxFile, "	if l.pgxTx != nil && !l.ended {\n", "	if l.pgxTx != nil && l.ended {\n",
		}},
		Test: Test{"internal/lease", "TestOneSavepointForAJob"},
	},
	{
		Name:   "statement-prepared-twice",
		Breaks: "a session on which an answer was not read cannot prepare the statement again",
		Edits:  []Edit{{"internal/lease/pipeline.go", "	p.SendDeallocate(stmt)\n", ""}},
		Test:   Test{"internal/lease", "TestPreparedBehindAnError"},
	},
	{
		Name:   "statements-taken-away",
		Breaks: "a job whose handler deallocates all prepared statements cannot be settled",
		Edits: []Edit{{
			statementsFile, "	if !l.stream.deallocated.Load() && (!l.wary.Load() || l.loan.prepared) {\n",
			"	if !l.wary.Load() || l.loan.prepared {\n",
		}},
		Test: Test{"internal/lease", "TestStatementsTakenAway"},
	},
	{
		Name:   "statements-taken-away-unseen",
		Breaks: "a job whose handler deallocates all prepared statements unseen fails, although it succeeds each time",
		Edits:  []Edit{{statementsFile, "!l.loan.prepared:\n", "l.loan.prepared:\n"}},
		Test:   Test{"internal/lease", "TestStatementsTakenAwayUnseen"},
	},
	{
		Name:   "raw-connection-overlooked",
		Breaks: "a session in which a handler ran SET on the raw connection goes on to the next job",
		Edits:  []Edit{{"internal/lease/stream.go", "	if kind == 'Q' || kind == 'P' {\n", "	if kind == 0 {\n"}},
		Test:   Test{"internal/lease", "TestSpoiledLane"},
	},
	{
		Name:   "setting-left-by-a-function",
		Breaks: "what a function of a handler sets for the session, the next job has",
		Edits:  []Edit{{"internal/lease/settling.go", "'%[2]s', 'f') END", "'%[2]s', 't') END"}},
		Test:   Test{"internal/lease", "TestSettingLeftByAFunction"},
	},
	{
		Name:   "late-cancel-forgotten",
		Breaks: "a cancel request that the server is slow to take kills a statement of another group's job",
		Edits: []Edit{{
			"internal/lease/canceller.go", "err == nil && ctx.Err() != nil {", "err != nil && ctx.Err() != nil {",
		}},
		Test: Test{"fifo", "TestLateCancelRequest"},
	},
	{
		Name:   "settling-that-was-cancelled",
		Breaks: "a job fails because a cancel request meant for its handler's statement met its settling",
		Edits:  []Edit{{statementsFile, "Cancelled && l.stream.late.Load():", "Cancelled && l == nil:"}},
		Test:   Test{"internal/lease", "TestCancelRequestIsLate"},
	},
	{
		Name:   "batch-goes-on-in-a-spoiled-session",
		Breaks: "a job of a batch runs in the session that the one before it has spoiled",
		Edits:  []Edit{{handleFile, "probed || s.lane.Spoiled() ||", "probed ||"}},
		Test:   Test{"fifo", "TestLateCancelRequest"},
	},
}
