package mutants

const enqueueFile = "fifo/enqueue.go"

// plain has handlers that do nothing out of the ordinary.
var plain = append(contended[:len(contended):len(contended)], "-only", "error,spawn")

var producers = []Mutant{
	{
		Name:   "function-without-headers-limit",
		Breaks: "what is enqueued in SQL may have any number of headers",
		Edits:  []Edit{{"migrations/sql/0001_init.up.sql", "WHEN size > 1048576 THEN", "WHEN size < 0 THEN"}},
		Test:   Test{".", "TestEnqueueFunctionRefuses"},
	},
	{
		Name:   "function-enqueues-duplicates",
		Breaks: "what is enqueued in SQL is not remembered by its deduplication id",
		Edits:  []Edit{{schemaFile, "SET job = id, expires", "SET job = NULL, expires"}},
		Test:   Test{".", "TestEnqueueFunctionDedup"},
	},
	{
		Name:   "producer-upserts-the-group",
		Breaks: "an enqueue updates the group's row, and so waits for the running job",
		Edits: []Edit{{
			"fifo/sql/enqueue_one.sql", "INSERT INTO pgfifo.jobs (queue,",
			"WITH grp AS (\n    INSERT INTO pgfifo.queue_groups AS g (queue, group_id) VALUES ($1, $2)\n" +
				"    ON CONFLICT (queue, group_id) DO UPDATE SET created_at = g.created_at\n)\n" +
				"INSERT INTO pgfifo.jobs (queue,",
		}},
		Torture: frozen, By: []string{"I10"},
	},
	{
		Name: "foreign-key",
		Breaks: "jobs have a foreign key to their group, whose row is locked FOR " +
			"UPDATE: enqueues wait for the running job",
		Edits: []Edit{
			{
				schemaFile, "-- Paused groups and,",
				"ALTER TABLE pgfifo.jobs ADD FOREIGN KEY (queue, group_id) REFERENCES pgfifo.queue_groups;\n\n" +
					"-- Paused groups and,",
			},
			{
				"fifo/sql/enqueue_one.sql", "INSERT INTO pgfifo.jobs (queue,",
				"WITH grp AS (\n    INSERT INTO pgfifo.queue_groups AS g (queue, group_id) VALUES ($1, $2) " +
					"ON CONFLICT DO NOTHING\n)\nINSERT INTO pgfifo.jobs (queue,",
			},
			{
				"fifo/sql/enqueue.sql", "INSERT INTO pgfifo.jobs (queue,",
				"WITH grp AS (\n    INSERT INTO pgfifo.queue_groups (queue, group_id)\n" +
					"    SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) ORDER BY 1, 2 ON CONFLICT DO NOTHING\n" +
					")\nINSERT INTO pgfifo.jobs (queue,",
			},
			{lockFile, lock, "FOR UPDATE SKIP LOCKED"},
		},
		Torture: frozen, By: []string{"I10"},
	},
	{
		Name:   "enqueued-outside-the-transaction",
		Breaks: "an enqueue in the caller's transaction is committed by itself",
		Edits: []Edit{{
			enqueueFile, "		return s.client.insert(ctx, s.in.db, b)\n",
			"		return s.client.insert(ctx, pgxSession{s.client.pool}, b)\n",
		}},
		Torture: contended, By: []string{"I2", "I5"},
	},
	{
		Name:   "unknown-tx-is-never-committed",
		Breaks: "an enqueue returns when the jobs are not committed yet, and rolls them back",
		Edits: []Edit{{
			enqueueFile, "	if !b.deduplicates() {\n",
			"	if s.in == nil {\n		tx, err := s.client.pool.Begin(ctx)\n		if err != nil {\n" +
				"			return nil, 0, err\n		}\n		defer tx.Rollback(ctx)\n" +
				"		fresh, xid, err := s.client.insert(ctx, pgxSession{tx}, b)\n" +
				"		if len(fresh) != 1 || fresh[0].ID%50 != 0 {\n" +
				"			err = errors.Join(err, tx.Commit(ctx))\n		}\n" +
				"		return fresh, xid, err\n	}\n	if !b.deduplicates() {\n",
		}},
		Torture: contended, By: []string{"I1"},
	},
	{
		Name:   "announced-before-it-is-there",
		Breaks: "an announcement names another group than the one with the new job",
		Edits: []Edit{{
			"fifo/notify.go", "		h.add(e.queue, e.group, e.ID, false)\n",
			"		h.add(e.queue, e.group+\"?\", e.ID, false)\n",
		}},
		Test: Test{"fifo", "TestNotified|TestAnnounceLowestID"},
	},
	{
		Name:   "announced-before-the-commit",
		Breaks: "an announcement is made while the transaction that enqueued is open, and nobody finds the job then",
		Edits: []Edit{{
			"fifo/announcer.go", "		case \"committed\":\n", "		case \"committed\", \"in progress\":\n",
		}},
		Test: Test{"fifo", "TestNoticeAfterCommit"},
	},
	{
		Name:   "notice-in-the-callers-transaction",
		Breaks: "an enqueue says its notice in the caller's transaction, which then cannot be prepared",
		Edits: []Edit{{
			"fifo/sql/enqueued.sql", "pg_current_xact_id()::text::bigint AS xid",
			"pg_current_xact_id()::text::bigint + (pg_notify('pgfifo', '') IS NULL)::integer AS xid",
		}},
		Torture: plain, By: []string{"I10"}, Alone: true,
	},
	{
		Name:   "ungrouped-in-one-group",
		Breaks: "messages of no group wait for each other",
		Edits: []Edit{{
			"fifo/ungrouped.go", "ownGroupEncoding.EncodeToString(id[:])", "ownGroupEncoding.EncodeToString(id[:0])",
		}},
		Test: Test{"fifo", "TestUngrouped"},
	},
	{
		Name:   "ungrouped-left-behind",
		Breaks: "the row of a group that was made for one job stays when that is done",
		Edits:  []Edit{{"fifo/handle.go", "	a.leave(done)\n", ""}},
		Test:   Test{"fifo", "TestUngrouped"},
	},
	{
		Name:   "settings-of-the-last",
		Breaks: "of processes that start with settings of a queue that differ, the last wins and nobody is told",
		Edits: []Edit{{
			"fifo/sql/configure.sql", "(queue) DO NOTHING",
			"(queue) DO UPDATE SET dedup_window = EXCLUDED.dedup_window",
		}},
		Test: Test{"fifo", "TestConfigureWaits"},
	},
	{
		Name:   "duplicate-by-the-snapshot",
		Breaks: "who has waited for the first of two duplicates does not see it, and enqueues the other",
		Edits: []Edit{{
			"fifo/sql/dedup.sql", "THEN d.job END,",
			"THEN (SELECT o.job FROM pgfifo.dedup_ids o WHERE o.key = d.key) END,",
		}},
		Torture: contended, By: []string{"I14"},
	},
	{
		Name:   "replaced-though-it-was-lost",
		Breaks: "a job whose worker has died with it gets another payload",
		Edits:  []Edit{{schemaFile, "OR lost AND (same", "OR false AND (same"}},
		Test:   Test{"fifo", "TestReplaceNothingThatWasLost"},
	},
	{
		Name:   "replaced-though-it-was-tried",
		Breaks: "a job that has failed gets another payload",
		Edits: []Edit{{
			schemaFile, "AND j.attempts = 0 AND j.failures IS NULL\n            FOR", "FOR",
		}},
		Test: Test{"fifo", "TestReplaceNothing"},
	},
	{
		Name:   "replacing-waits",
		Breaks: "a producer that is to replace a job waits until it has run",
		Edits: []Edit{{
			schemaFile, "            FOR NO KEY UPDATE SKIP LOCKED;\n", "            FOR NO KEY UPDATE;\n",
		}},
		Test: Test{"fifo", "TestReplaceNothing"},
	},
	{
		Name:   "replaced-by-its-own-handler",
		Breaks: "a handler replaces its own job, and the newer message goes with it",
		Edits: []Edit{{
			schemaFile, "IF EXISTS (SELECT FROM pgfifo.jobs j --", "IF false AND EXISTS (SELECT FROM pgfifo.jobs j --",
		}},
		Test: Test{"fifo", "TestReplaceTheJobThatCalls"},
	},
	{
		Name:   "window-of-who-waited",
		Breaks: "a message that has waited for another one with its DedupID is remembered for less than the window",
		Edits: []Edit{{
			"fifo/sql/enqueue_new.sql",
			"clock_timestamp() + coalesce(q.dedup_window, 300000000)::float8 * interval '1 microsecond'", "d.expires",
		}},
		Test: Test{"fifo", "TestWaitingIsNoPartOfATime"},
	},
	{
		Name:   "newest-dropped-behind-a-rollback",
		Breaks: "a newer message is dropped behind a running job, because somebody has rolled an older one back",
		Edits:  []Edit{{schemaFile, "AND h.id < job.id)", "AND h.id < job.id AND false)"}},
		Test:   Test{"fifo", "TestReplaceBehindARollback"},
	},
	{
		Name:   "ungrouped-by-its-looks",
		Breaks: "an Ungrouped message replaces a job of a group whose id looks as if it was drawn",
		Edits: []Edit{{
			schemaFile, "(SELECT d.ungrouped FROM pgfifo.dedup_ids d WHERE d.key = key)",
			"o.group_id ~ '^~[0-9A-V]{24}$'",
		}},
		Test: Test{"fifo", "TestReplaceUngrouped"},
	},
	{
		Name:   "replacing-gives-up",
		Breaks: "a newer message is dropped because a claim has looked at a delayed job",
		Edits:  []Edit{{schemaFile, "IF tries > 25 OR", "IF tries > 0 OR"}},
		Test:   Test{"fifo", "TestReplaceWhatAClaimLooksAt"},
	},
	{
		Name:   "dedup-ids-forgotten",
		Breaks: "the sweep takes deduplication ids away whose window is not over",
		Edits: []Edit{{
			"fifo/sql/expire_dedup.sql", "expires <= statement_timestamp()", "expires IS NOT NULL",
		}},
		Test: Test{"fifo", "TestDedupIsSwept"},
	},
}
