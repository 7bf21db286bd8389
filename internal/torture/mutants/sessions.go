package mutants

// kept has queues whose groups are a session's, and ends sessions and workers in the middle of jobs.
const kept = "-jobs 2500 -groups 60 -processes 3 -lanes 3 -severs 14 -kills 6 -terminates 8 -leases 4"

const (
	keeperFile    = "internal/lease/session.go"
	roundFile     = "internal/lease/round.go"
	keepLockFile  = "internal/lease/sql/keep_lock.sql"
	keepClaimFile = "internal/lease/sql/keep_claim.sql"
	keepTakeFile  = "internal/lease/sql/keep_take.sql"
	takeJobsFile  = "internal/lease/sql/keep_take_jobs.sql"
	keepDoneFile  = "internal/lease/sql/keep_done.sql"
	settlements   = "internal/lease/settlement.go"
	keepSlotsFile = "internal/lease/sql/keep_slots.sql"
	reclaimFile   = "internal/schedule/sql/reclaim.sql"
	headsFile     = "internal/schedule/sql/heads.sql"

	tokenOfRow = " AND g.token = k.token"
	isOwn      = "pg_current_xact_id_if_assigned()::xid"
)

var sessions = []Mutant{
	plant("slow-completions-together", "one group whose completions take long keeps others waiting, again and again",
		test("fifo", "TestSlowCompletionsKeepNoOtherWaiting"),
		in("internal/lease/settlement.go", "time.Since(begin) >= quick &&", "time.Since(begin) >= 100*quick &&")),
	plant("session-done-without-token", "a job is completed without a look at the token of its claim",
		test("internal/lease", "TestFormerHolderSettlesNothing"), in(keepDoneFile, tokenOfRow, "")),
	plant("session-take-without-token", "a group is taken, to settle its job, without a look at the token of its claim",
		test("internal/lease", "TestFormerHolderSettlesNothing"),
		in(keepTakeFile, " AND r.token = k.token", ""),
		in(takeJobsFile, tokenOfRow, "")),
	plant("session-token-before-the-lock",
		"the token is not looked at in the row that is locked: a claim may come in between",
		test("internal/lease", "TestTakeBehindAClaim"), in(takeJobsFile, tokenOfRow, "")),
	plant("session-settled-together-unheld",
		"failures that are settled together are recorded also of groups that are not the claims' any more",
		test("internal/lease", "TestFailuresAreSettledTogether"),
		in(settlements, "		if s.err != nil {\n			continue\n		}\n", "		s.err = nil\n")),
	plant("session-mark-goes-unrecorded",
		"a group is let go, and the mark of a lost attempt goes, although that could not be recorded",
		test("internal/lease", "TestMarkStaysWithAnUnrecordedAttempt"),
		in("internal/lease/sql/keep_end.sql", "AND r.xmin <> pg_current_xact_id()::xid", "AND false")),
	plant("session-place-is-proof",
		"a job behind the head that was replaced, and is where it was, is taken for what was read",
		test("internal/lease", "TestReplacedInItsPlace"),
		in("internal/lease/sql/keep_same.sql", " AND j.version = k.version", "")),
	plant("session-slow-among-the-quick", "a job whose completion takes long is completed by the few lanes of all",
		test("internal/lease", "TestSlowCompletionKeepsNoOtherWaiting"),
		in("internal/lease/borrower_lane.go", "		}\n		b.keeper.slow.add(hold.Key)\n", "		}\n")),
	plant("session-release-unseen", "nobody but a walk sees that a session which lives on has let a group go",
		test("internal/schedule", "TestReleasedBySession"),
		in("internal/schedule/watch.go", "	keys = append(keys, released...)\n", "	_ = released\n")),
	plant("session-claim-skipped", "a job runs although the server has written nothing of its claim",
		test("internal/lease", "TestClaimThatIsSkipped"),
		in("internal/lease/hold.go", "return h.token == 0 && h.sent()", "return h.token < 0 && h.sent()")),
	plant("session-release-refused-for-all",
		"groups and slots stay a session's while the server refuses to free one of them",
		test("internal/lease", "TestReleaseApart"),
		in(keeperFile, "several && len(all) > 0", "several && len(all) < 0")),
	plant("session-takes-all-slots", "a plan of another time has a session take slots that it gives to no job",
		test("internal/lease", "TestSlotsAreAsManyAsAsked"), in(keepSlotsFile, "    LIMIT $2\n", "    LIMIT $2 + 3\n")),
	plant("session-take-without-lock", "the token is looked at in a snapshot, and the row is not locked",
		test("internal/lease", "TestTakeBehindAClaim"),
		in(keepTakeFile, "FOR NO KEY UPDATE) g", "AND pg_current_xact_id() IS NOT NULL) g"),
		in(takeJobsFile, "= "+isOwn, "IS NOT NULL")),
	plant("session-token-does-not-grow", "the next claim of a group has the token of the one before",
		run(kept, "I3-fence"),
		in(keepClaimFile, "token = nextval('pgfifo.fences_token_seq')",
			"token = coalesce(g.token, nextval('pgfifo.fences_token_seq'))")),
	plant("session-claim-answered-early", "a handler begins before its claim is committed",
		run(kept, "I6"),
		in(roundFile, "	p.send(stmtCommit, nil, nil)\n", ""),
		in(keeperFile, "		close(a.done)\n	}\n",
			"		close(a.done)\n	}\n	time.Sleep(20 * time.Millisecond)\n"+
				"	if pg := s.conn.PgConn(); err == nil && pg.TxStatus() != 'I' {\n"+
				"		_, err = pg.Exec(context.Background(), \"COMMIT\").ReadAll()\n	}\n")),
	plant("session-claim-not-durable", "a crash of the server takes claims back whose handlers have begun",
		test("internal/lease", "TestSessionsClaimIsDurable"),
		in(keeperFile, "'synchronous_commit', 'local'", "'synchronous_commit', 'off'")),
	plant("session-claims-its-own-again", "a process claims a group that its session has already",
		test("internal/lease", "TestSessionHoldsAlone"),
		in(keepLockFile, " AND r.session IS NULL", ""),
		in(keepClaimFile, "AND g.session IS NULL)", "AND (g.session IS NULL OR g.session = $5))")),
	plant("session-claims-another's", "a session claims a group that another one has",
		test("internal/lease", "TestSessionHoldsAlone"),
		in(keepLockFile, " AND r.session IS NULL", ""),
		in(keepClaimFile, "AND g.session IS NULL)", ")")),
	plant("session-locked-is-free",
		"a group is claimed that has got a session between the snapshot and the lock of its row",
		test("internal/lease", "TestLockedIsNotFree"), in(keepClaimFile, "AND g.session IS NULL)", ")")),
	plant("session-beside-the-default-lease", "claims of the default lease take groups that a session has",
		test("internal/lease", "TestSessionHoldsAlone"), in(lockFile, " AND g.session IS NULL", "")),
	plant("session-beside-claims-of-many", "claims of many groups by the default lease take those that a session has",
		test("internal/lease", "TestLockedIsNotFree"),
		in("internal/lease/sql/lock_many.sql", " AND g.session IS NULL", ""),
		in("internal/lease/sql/claim_many.sql", " AND g.session IS NULL", "")),
	plant("session-without-pulse", "a session that nobody asks does not learn that it has ended",
		test("internal/lease", "TestSessionHearsOfItsEnd"),
		in(keeperFile, "time.After(wait)", "time.After(wait + time.Hour)")),
	plant("session-loss-not-told", "handlers are not told that the session has ended which held their groups",
		test("fifo", "TestLossOfASessionIsTold"),
		in("fifo/crew.go", "(*at).HungUp() {\n			s.cancel(lease.ErrLost)",
			"(*at).HungUp() {\n			_ = s")),
	plant("session-reclaimed-alive", "groups are taken from sessions that live",
		run(kept, "I3", "I6"),
		in(reclaimFile, "AND pg_try_advisory_xact_lock_shared(r.session)", ""),
		in(headsFile, "AND NOT pg_try_advisory_xact_lock_shared(head.session)", "AND false")),
	plant("session-dead-not-marked", "the attempts of a session that has died are not counted",
		run(kept, "I6"), in(reclaimFile, "WHERE NOT EXISTS", "WHERE d.job < 0 AND NOT EXISTS")),
	plant("session-dead-of-a-former-life", "an attempt is counted that died before its job was buried and redriven",
		test("fifo", "TestRedriveOfWhatASessionDiedWith"),
		in(reclaimFile, "::timestamptz > d.since", "::timestamptz < d.since")),
	plant("session-forfeit-not-counted", "an attempt whose end is not known is given back, and not counted",
		test("internal/lease", "TestSessionsClaimIsCommitted"),
		in("internal/lease/borrower.go", "_ = b.release(keptHeads(b.hold), deadNumber())",
			"_ = b.release(keptHeads(b.hold), 0)")),
	plant("session-stays-at-completion", "a job is completed, and its group stays the session's",
		run(kept, "I8", "I12"), in(keepDoneFile, "SET session = NULL", "SET session = g.session")),
	plant("session-stays-at-settling", "a job is settled in its transaction, and its group stays the session's",
		run(kept, "I8", "I12"), in("internal/lease/sql/keep_end.sql", "SET session = NULL", "SET session = g.session")),
	plant("session-keeps-slots", "the slot of a job in a queue that has a limit is not given back",
		run(kept, "I8", "I12"),
		in("internal/lease/sql/keep_slots_free.sql", "SET session = NULL", "SET session = s.session")),
	plant("session-takes-slots", "a slot is taken that a session has",
		test("internal/lease", "TestSessionsSlotIsTaken"),
		in(keepSlotsFile, "f.session <> $3 AND pg_try_advisory_xact_lock_shared(f.session)", "f.session > 0")),
	plant("session-dead-for-nobody", "nobody finds that a session is dead",
		run(kept, "I7", "I8", "I12"), in(headsFile, "AND NOT pg_try_advisory_xact_lock_shared(head.session)", "")),
}
