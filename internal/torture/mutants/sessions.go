package mutants

// kept has queues whose groups are a session's, and ends sessions and workers in the middle of jobs.
var kept = []string{
	"-jobs", "2500", "-groups", "60", "-processes", "3", "-lanes", "3", "-severs", "14", "-kills", "6",
	"-terminates", "8", "-leases", "4",
}

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
	{
		Name:   "session-done-without-token",
		Breaks: "a job is completed without a look at the token of its claim",
		Edits:  []Edit{{keepDoneFile, tokenOfRow, ""}},
		Test:   Test{"internal/lease", "TestFormerHolderSettlesNothing"},
	},
	{
		Name:   "session-take-without-token",
		Breaks: "a group is taken, to settle its job, without a look at the token of its claim",
		Edits:  []Edit{{keepTakeFile, " AND r.token = k.token", ""}, {takeJobsFile, tokenOfRow, ""}},
		Test:   Test{"internal/lease", "TestFormerHolderSettlesNothing"},
	},
	{
		Name:   "session-token-before-the-lock",
		Breaks: "the token is not looked at in the row that is locked: a claim may come in between",
		Edits:  []Edit{{takeJobsFile, tokenOfRow, ""}},
		Test:   Test{"internal/lease", "TestTakeBehindAClaim"},
	},
	{
		Name:   "session-settled-together-unheld",
		Breaks: "failures that are settled together are recorded also of groups that are not the claims' any more",
		Edits: []Edit{{
			settlements, "		if s.err != nil {\n			continue\n		}\n", "		s.err = nil\n",
		}},
		Test: Test{"internal/lease", "TestFailuresAreSettledTogether"},
	},
	{
		Name:   "session-mark-goes-unrecorded",
		Breaks: "a group is let go, and the mark of a lost attempt goes, although that could not be recorded",
		Edits:  []Edit{{"internal/lease/sql/keep_end.sql", "AND r.xmin <> pg_current_xact_id()::xid", "AND false"}},
		Test:   Test{"internal/lease", "TestMarkStaysWithAnUnrecordedAttempt"},
	},
	{
		Name:   "session-place-is-proof",
		Breaks: "a job behind the head that was replaced, and is where it was, is taken for what was read",
		Edits:  []Edit{{"internal/lease/sql/keep_same.sql", " AND j.version = k.version", ""}},
		Test:   Test{"internal/lease", "TestReplacedInItsPlace"},
	},
	{
		Name:   "session-slow-among-the-quick",
		Breaks: "a job whose completion takes long is completed by the few lanes of all",
		Edits:  []Edit{{"internal/lease/borrow.go", "		b.keeper.slow.add(hold.Key)\n", ""}},
		Test:   Test{"internal/lease", "TestSlowCompletionKeepsNoOtherWaiting"},
	},
	{
		Name:   "session-release-unseen",
		Breaks: "nobody but a walk sees that a session which lives on has let a group go",
		Edits:  []Edit{{"internal/schedule/watch.go", "	keys = append(keys, released...)\n", "	_ = released\n"}},
		Test:   Test{"internal/schedule", "TestReleasedBySession"},
	},
	{
		Name:   "session-claim-skipped",
		Breaks: "a job runs although the server has written nothing of its claim",
		Edits:  []Edit{{"internal/lease/hold.go", "return h.token == 0 && h.sent()", "return h.token < 0 && h.sent()"}},
		Test:   Test{"internal/lease", "TestClaimThatIsSkipped"},
	},
	{
		Name:   "session-release-refused-for-all",
		Breaks: "groups and slots stay a session's while the server refuses to free one of them",
		Edits:  []Edit{{keeperFile, "several && len(all) > 0", "several && len(all) < 0"}},
		Test:   Test{"internal/lease", "TestReleaseApart"},
	},
	{
		Name:   "session-takes-all-slots",
		Breaks: "a plan of another time has a session take slots that it gives to no job",
		Edits:  []Edit{{keepSlotsFile, "    LIMIT $2\n", "    LIMIT $2 + 3\n"}},
		Test:   Test{"internal/lease", "TestSlotsAreAsManyAsAsked"},
	},
	{
		Name:   "session-take-without-lock",
		Breaks: "the token is looked at in a snapshot, and the row is not locked",
		Edits: []Edit{
			{keepTakeFile, "FOR NO KEY UPDATE) g", "AND pg_current_xact_id() IS NOT NULL) g"},
			{takeJobsFile, "= " + isOwn, "IS NOT NULL"},
		},
		Test: Test{"internal/lease", "TestTakeBehindAClaim"},
	},
	{
		Name:   "session-token-does-not-grow",
		Breaks: "the next claim of a group has the token of the one before",
		Edits: []Edit{{
			keepClaimFile, "token = nextval('pgfifo.fences_token_seq')",
			"token = coalesce(g.token, nextval('pgfifo.fences_token_seq'))",
		}},
		Torture: kept, By: []string{"I3-fence"},
	},
	{
		Name:   "session-claim-answered-early",
		Breaks: "a handler begins before its claim is committed",
		Edits: []Edit{
			{
				roundFile, "	p.send(stmtCommit, nil, nil)\n	if err := p.Sync()",
				"	if err := p.Sync()",
			},
			{roundFile, "	if _, err := readTag(p); err != nil { // COMMIT\n		return err\n	}\n", ""},
			{
				keeperFile, "		close(a.done)\n	}\n",
				"		close(a.done)\n	}\n	time.Sleep(20 * time.Millisecond)\n" +
					"	if pg := s.conn.PgConn(); err == nil && pg.TxStatus() != 'I' {\n" +
					"		_, err = pg.Exec(context.Background(), \"COMMIT\").ReadAll()\n	}\n",
			},
		},
		Torture: kept, By: []string{"I6"},
	},
	{
		Name:   "session-claim-not-durable",
		Breaks: "a crash of the server takes claims back whose handlers have begun",
		Edits:  []Edit{{keeperFile, "'synchronous_commit', 'local'", "'synchronous_commit', 'off'"}},
		Test:   Test{"internal/lease", "TestSessionsClaimIsDurable"},
	},
	{
		Name:   "session-claims-its-own-again",
		Breaks: "a process claims a group that its session has already",
		Edits: []Edit{
			{keepLockFile, " AND r.session IS NULL", ""},
			{keepClaimFile, "AND g.session IS NULL)", "AND (g.session IS NULL OR g.session = $5))"},
		},
		Test: Test{"internal/lease", "TestSessionHoldsAlone"},
	},
	{
		Name:   "session-claims-another's",
		Breaks: "a session claims a group that another one has",
		Edits: []Edit{
			{keepLockFile, " AND r.session IS NULL", ""}, {keepClaimFile, "AND g.session IS NULL)", ")"},
		},
		Test: Test{"internal/lease", "TestSessionHoldsAlone"},
	},
	{
		Name:   "session-locked-is-free",
		Breaks: "a group is claimed that has got a session between the snapshot and the lock of its row",
		Edits:  []Edit{{keepClaimFile, "AND g.session IS NULL)", ")"}},
		Test:   Test{"internal/lease", "TestLockedIsNotFree"},
	},
	{
		Name:   "session-beside-the-default-lease",
		Breaks: "claims of the default lease take groups that a session has",
		Edits:  []Edit{{lockFile, " AND g.session IS NULL", ""}},
		Test:   Test{"internal/lease", "TestSessionHoldsAlone"},
	},
	{
		Name:   "session-beside-claims-of-many",
		Breaks: "claims of many groups by the default lease take those that a session has",
		Edits: []Edit{
			{"internal/lease/sql/lock_many.sql", " AND g.session IS NULL", ""},
			{"internal/lease/sql/claim_many.sql", " AND g.session IS NULL", ""},
		},
		Test: Test{"internal/lease", "TestLockedIsNotFree"},
	},
	{
		Name:   "session-without-pulse",
		Breaks: "a session that nobody asks does not learn that it has ended",
		Edits:  []Edit{{keeperFile, "time.After(wait)", "time.After(wait + time.Hour)"}},
		Test:   Test{"internal/lease", "TestSessionHearsOfItsEnd"},
	},
	{
		Name:   "session-loss-not-told",
		Breaks: "handlers are not told that the session has ended which held their groups",
		Edits: []Edit{{
			"fifo/crew.go", "(*at).HungUp() {\n			s.cancel(lease.ErrLost)",
			"(*at).HungUp() {\n			_ = s",
		}},
		Test: Test{"fifo", "TestLossOfASessionIsTold"},
	},
	{
		Name:   "session-reclaimed-alive",
		Breaks: "groups are taken from sessions that live",
		Edits: []Edit{
			{reclaimFile, "AND pg_try_advisory_xact_lock_shared(r.session)", ""},
			{headsFile, "AND NOT pg_try_advisory_xact_lock_shared(head.session)", "AND false"},
		},
		Torture: kept, By: []string{"I3", "I6"},
	},
	{
		Name:    "session-dead-not-marked",
		Breaks:  "the attempts of a session that has died are not counted",
		Edits:   []Edit{{reclaimFile, "WHERE NOT EXISTS", "WHERE d.job < 0 AND NOT EXISTS"}},
		Torture: kept, By: []string{"I6"},
	},
	{
		Name:   "session-dead-of-a-former-life",
		Breaks: "an attempt is counted that died before its job was buried and redriven",
		Edits:  []Edit{{reclaimFile, "::timestamptz > d.since", "::timestamptz < d.since"}},
		Test:   Test{"fifo", "TestRedriveOfWhatASessionDiedWith"},
	},
	{
		Name:   "session-forfeit-not-counted",
		Breaks: "an attempt whose end is not known is given back, and not counted",
		Edits: []Edit{{
			"internal/lease/borrower.go", "_ = b.release(keptHeads(b.hold), deadNumber())",
			"_ = b.release(keptHeads(b.hold), 0)",
		}},
		Test: Test{"internal/lease", "TestSessionsClaimIsCommitted"},
	},
	{
		Name:    "session-stays-at-completion",
		Breaks:  "a job is completed, and its group stays the session's",
		Edits:   []Edit{{keepDoneFile, "SET session = NULL", "SET session = g.session"}},
		Torture: kept, By: []string{"I8", "I12"},
	},
	{
		Name:    "session-stays-at-settling",
		Breaks:  "a job is settled in its transaction, and its group stays the session's",
		Edits:   []Edit{{"internal/lease/sql/keep_end.sql", "SET session = NULL", "SET session = g.session"}},
		Torture: kept, By: []string{"I8", "I12"},
	},
	{
		Name:   "session-keeps-slots",
		Breaks: "the slot of a job in a queue that has a limit is not given back",
		Edits: []Edit{{
			"internal/lease/sql/keep_slots_free.sql", "SET session = NULL", "SET session = s.session",
		}},
		Torture: kept, By: []string{"I8", "I12"},
	},
	{
		Name:   "session-takes-slots",
		Breaks: "a slot is taken that a session has",
		Edits: []Edit{{
			keepSlotsFile, "f.session <> $3 AND pg_try_advisory_xact_lock_shared(f.session)", "f.session > 0",
		}},
		Test: Test{"internal/lease", "TestSessionsSlotIsTaken"},
	},
	{
		Name:    "session-dead-for-nobody",
		Breaks:  "nobody finds that a session is dead",
		Edits:   []Edit{{headsFile, "AND NOT pg_try_advisory_xact_lock_shared(head.session)", ""}},
		Torture: kept, By: []string{"I7", "I8", "I12"},
	},
}
