package mutants

// swept stops a worker in the middle of a sweep.
var swept = []string{"-jobs", "1200", "-groups", "100", "-processes", "3", "-lanes", "3", "-batch", "1", "-sweeps", "1"}

// delayed has many jobs that wait all through the run.
var delayed = []string{
	"-jobs", "1500", "-groups", "300", "-processes", "3", "-lanes", "4", "-batch", "1", "-delayed", "2000",
	"-only", "spawn",
}

// stuck has jobs that cannot be given up, and a few lanes.
var stuck = []string{
	"-jobs", "1000", "-groups", "20", "-processes", "2", "-lanes", "2", "-batch", "1",
	"-clashes", "2", "-only", "error",
}

var discovery = []Mutant{
	{
		Name:    "no-row-for-a-new-group",
		Breaks:  "nobody makes the rows of new groups, so their jobs wait for ever",
		Edits:   []Edit{{scoutFile, "return c.missing && !c.Paused", "return c.missing && !c.Paused && conn == nil"}},
		Torture: contended, By: []string{"I8"},
	},
	{
		Name:   "row-made-only-once",
		Breaks: "a group's row is made when the group is first seen, and not again when it has been collected",
		Edits: []Edit{
			{
				scoutFile, "return c.missing && !c.Paused",
				"\n			seen := s.seen[c.Key]\n			s.seen[c.Key] = true\n" +
					"			return c.missing && !c.Paused && !seen",
			},
			{
				scoutFile, "	hurry   bell\n}",
				"	hurry   bell\n	seen    map[groups.Key]bool\n}",
			},
			{
				scoutFile, "gap: minGap, hurry: newBell(),",
				"gap: minGap, hurry: newBell(), seen: make(map[groups.Key]bool),",
			},
		},
		Torture: patient, By: []string{"I8"},
	},
	{
		Name:   "held-groups-forgotten",
		Breaks: "nobody looks at the groups that a dead worker held, before the next slow walk",
		Edits: []Edit{
			{watchFile, "	case view.Hinted:\n", "	case view.Hinted && view.Held < 0:\n"},
			{watchFile, "	case view.Held == 0:\n", "	case view.Held >= 0:\n"},
		},
		Test: Test{"internal/schedule", "TestScoutAnnouncesWhatIsFreed|TestScoutLooksAtMissedGroups"},
	},
	{
		Name:   "priority-of-a-job-behind",
		Breaks: "a group is offered first for the sake of a job that is not its head",
		Edits: []Edit{{
			"internal/schedule/sql/probe.sql", "j.xmax AS xid, j.priority\n",
			"j.xmax AS xid, (SELECT max(h.priority) " +
				"FROM pgfifo.jobs h WHERE h.queue = k.queue AND h.group_id = k.group_id) AS priority\n",
		}},
		Test: Test{"internal/schedule", "TestUrgentHeads"},
	},
	{
		Name:   "priorities-without-a-part-for-others",
		Breaks: "groups of a low priority wait for as long as there are any of a higher one",
		Edits:  []Edit{{"internal/schedule/ranks.go", "	if r.passed < guaranteed-1 {\n", "	if r.ranked > 0 {\n"}},
		Test:   Test{"fifo", "TestPriorityLeavesAPart"},
	},
	{
		Name:   "priority-behind-the-line",
		Breaks: "a priority counts only among the groups that a worker has in line",
		Edits: []Edit{
			{"internal/schedule/urgent.go", "	case view.Ready == 0:\n", "	case view.Ready >= 0:\n"},
			{"fifo/listen.go", "		case n.Urgent:\n", "		case n.Urgent && n.Cancel:\n"},
		},
		Test: Test{"fifo", "TestPriorityBehindABacklog"},
	},
	{
		Name:   "looks-without-what-is-due",
		Breaks: "where looks are made instead of walks, jobs whose time has come are not looked for",
		Edits: []Edit{
			{
				lookFile, "id: from.id, last: now.id, from:",
				"id: from.id, last: now.id, queue: len(s.Queues), from:",
			},
		},
		Test: Test{"internal/schedule", "TestLooksFindWhatIsDue"},
	},
	{
		Name:    "due-late",
		Breaks:  "a job begins some seconds after it was due",
		Edits:   []Edit{{"internal/lease/hold.go", "min(max(at, from)-from,", "min(max(at+15e6, from)-from,"}},
		Torture: delayed, By: []string{"I12"},
	},
	{
		Name:   "trouble-with-one-row-for-all",
		Breaks: "a row that the server refuses to make keeps all groups from being found",
		Edits: []Edit{{
			"internal/schedule/rows.go",
			"	case !lease.Blames(err):\n		return nil",
			"	case err != nil || !lease.Blames(err):\n		return nil",
		}},
		Test: Test{"fifo", "TestRefusedRowIsTroubleOfItsGroup"},
	},
	{
		Name:   "trouble-not-parked",
		Breaks: "a group about which the server refuses something is tried again at once, and again",
		Edits: []Edit{{
			turnsFile,
			"		turn.troubles++\n		t.park(turn, time.Now().Add(troubleDelay(turn.troubles)))\n",
			"		turn.troubles++\n		t.put(turn)\n",
		}},
		Test: Test{"fifo", "TestTroubleIsOfItsGroup"},
	},
	{
		Name:   "refused-retried-at-once",
		Breaks: "a job whose end the server refuses is tried again at once, and again",
		Edits: []Edit{{
			"fifo/settle.go", "	delay := s.delay(p, failed.job, failed.failure.err)\n",
			"	delay := 0 * s.delay(p, failed.job, failed.failure.err)\n",
		}},
		Torture: stuck, By: []string{"I12"},
	},
	{
		Name:   "company-left-behind",
		Breaks: "a group that was handed to a lane which stops is offered again",
		Edits: []Edit{{
			turnsFile, "append([]*Turn{turn}, turn.with...)", "[]*Turn{turn}",
		}},
		Test: Test{"internal/schedule", "TestNextReturnsTheCompany"},
	},
	{
		Name:   "breaker-never-opens",
		Breaks: "jobs of a queue that is unavailable are tried as fast as ever",
		Edits:  []Edit{{probeFile, "	sickGroups = tuning.Few + 1\n", "	sickGroups = 1 << 30\n"}},
		Test:   Test{"fifo", "TestOutage"},
	},
	{
		Name:   "breaker-never-closes",
		Breaks: "a queue that is available again is worked one job at a time for ever",
		Edits:  []Edit{{probeFile, "	case up:\n", "	case up && !p.open:\n"}},
		Test:   Test{"fifo", "TestOutage"},
	},
	{
		Name:   "pause-between-looks",
		Breaks: "what was paused for a moment is found when it is resumed",
		Edits:  []Edit{{scoutFile, "w.needed = w.needed || p.paused", "w.needed = w.needed || p.paused && false"}},
		Test:   Test{"internal/schedule", "TestPauseBetweenLooks"},
	},
	{
		Name:   "queues-by-turns",
		Breaks: "short jobs do not wait for another queue's long ones again and again",
		Edits: []Edit{
			{lineFile, "(r.used <= least+evenWithin || r == l.first) && may(r.name)", "may(r.name)"},
			{lanesFile, "if more && stay && t.behind(was) {", "if more && stay && false && t.behind(was) {"},
		},
		Test: Test{"internal/schedule", "TestQueueOfShortJobsBesideLongOnes"},
	},
	{
		Name:   "look-waits-for-a-crowd",
		Breaks: "new jobs are found beside many that are due soon",
		Edits: []Edit{{
			lookFile, "		p.queue, l.owed = len(s.Queues), p.from\n", "",
		}},
		Test: Test{"internal/schedule", "TestLooksBesideACrowd"},
	},
	{
		Name:   "pause-ignored",
		Breaks: "jobs of a paused group run",
		Edits: []Edit{
			{attemptFile, "	case hold.Paused:\n		claim[hold.N].outcome.Paused = true\n		return a\n", ""},
			{"internal/schedule/candidate.go", "		if c.Paused {\n			continue\n		}\n", ""},
			{scoutFile, "return c.missing && !c.Paused", "return c.missing"},
		},
		Test: Test{".", "TestBlockedGroupsStopNoOther"},
	},
	{
		Name:   "collected-without-a-second-look",
		Breaks: "the row of a group is deleted that has had a job since it was found idle",
		Edits: []Edit{{
			"internal/schedule/sql/collect.sql",
			"\n  AND (SELECT true FROM pgfifo.jobs j " +
				"WHERE j.queue = g.queue AND j.group_id = g.group_id LIMIT 1) IS NULL", "",
		}},
		Test: Test{"internal/schedule", "TestCollectLooksTwice"},
	},
	{
		Name:   "collected-marks-of-what-runs",
		Breaks: "a job's mark is deleted that started since its group was found idle: its death is not counted",
		Edits: []Edit{{
			"internal/schedule/sql/collect_rest.sql",
			"\n      AND (SELECT true FROM pgfifo.jobs j " +
				"WHERE j.queue = m.queue AND j.group_id = m.group_id AND j.id = m.id) IS NULL", "",
		}},
		Test: Test{"internal/schedule", "TestCollectLeavesMarks"},
	},
	{
		Name:   "sweep-unbounded",
		Breaks: "a worker that freezes while it collects idle groups keeps their rows",
		Edits: []Edit{{
			"fifo/sql/sweep.sql", "pg_catalog.set_config('idle_in_transaction_session_timeout'::text, $2::text, true)",
			"pg_catalog.concat($2::text)",
		}},
		Torture: swept, By: []string{"I7", "I8"},
	},
	{
		Name:   "collection-waits",
		Breaks: "the collection of idle groups waits for those that are held",
		Edits: []Edit{
			{"internal/schedule/sql/collect_lock.sql", "FOR UPDATE OF g SKIP LOCKED", "FOR UPDATE OF g"},
			{
				"internal/schedule/sql/collect_lock.sql", "::text::xid8) = 'committed', true)",
				"::text::xid8) <> '', true)",
			},
		},
		Test: Test{"internal/schedule", "TestCollectPassesOverHeldGroups"},
	},
	{
		Name:   "last-group-first",
		Breaks: "a group that was worked has the next turn, too, and starves the others",
		Edits: []Edit{{
			lineFile, "func (l *line) push(turn *Turn) {\n",
			"func (l *line) push(turn *Turn) {\n	turn.orphan = true\n",
		}},
		Test: Test{"internal/schedule", "TestTurnsGoRound"},
	},
	{
		Name:   "queue-behind-a-backlog",
		Breaks: "a queue waits until another has no ready group",
		Edits: []Edit{{
			lineFile, "		l.round = append(l.round, r)\n	}\n	return turn\n",
			"		l.round = slices.Insert(l.round, i, r)\n	}\n	return turn\n",
		}},
		Test: Test{"internal/schedule", "TestQueuesGoRound"},
	},
	{
		Name:   "collector-covers-evidence",
		Breaks: "the collector locks the row of a group whose worker has died since it began to look",
		Edits: []Edit{{
			"internal/schedule/sql/collect_lock.sql", "THEN false -- it is newer", "THEN true -- it is newer",
		}},
		Test: Test{"internal/schedule", "TestCollectLeavesEvidence"},
	},
	{
		Name:   "lane-not-kept",
		Breaks: "the lane that is kept for a queue is taken by another",
		Edits:  []Edit{{lanesFile, "	return free >= 0\n", "	return free > -l.of-1\n"}},
		Test:   Test{"fifo", "TestLaneIsKept"},
	},
	{
		Name:   "lanes-saved-up",
		Breaks: "a queue or a share that could use one lane for long gets all of them when it has more groups",
		Edits:  []Edit{{lineFile, "least -= 2 * evenWithin", "least = 0"}},
		Test:   Test{"internal/schedule", "TestQueueThatKeptALaneBusy|TestShareThatComesBack"},
	},
	{
		Name:   "shares-by-turns",
		Breaks: "the shares of a queue have turns alike, however long their jobs take and whatever their weights",
		Edits:  []Edit{{sharesFile, "u.part = lane / len(together)", "u.part = 0 / len(together)"}},
		Test:   Test{"internal/schedule", "TestSharesOfLanes"},
	},
	{
		Name:   "share-fills-the-line",
		Breaks: "a share with many groups leaves no room in line for those of others",
		Edits:  []Edit{{sharesFile, "room = max(room, t.limit/", "room = max(room, 0/"}},
		Test:   Test{"internal/schedule", "TestShareIsFoundBehindAnother"},
	},
	{
		Name:   "share-read-from-the-start",
		Breaks: "when a share runs low the first of its groups are found again, and those behind them never",
		Edits:  []Edit{{refillFile, "f.from = w.until", "f.from = f.from[:0]"}},
		Test:   Test{"internal/schedule", "TestRefillGoesOn"},
	},
	{
		Name:   "lanes-not-bounded",
		Breaks: "a queue has more lanes than it may",
		Edits:  []Edit{{lanesFile, "b.Max > 0 && working >= b.Max", "b.Max > 0 && working > b.Max+l.of"}},
		Test:   Test{"fifo", "TestLanesAreLimited"},
	},
	{
		Name:   "running-job-purged",
		Breaks: "a purge waits for the running job, or deletes it",
		Edits:  []Edit{{"fifo/sql/purge.sql", "    FOR UPDATE SKIP LOCKED\n", "    FOR UPDATE\n"}},
		Test:   Test{"fifo", "TestPurgeLeavesTheRunningJob"},
	},
	{
		Name:   "group-is-its-queue",
		Breaks: "what an operator does to a group is done to its whole queue",
		Edits: []Edit{{
			"fifo/scope.go", "	if s.level != ofGroup {\n		return nil\n",
			"	if s.level != -1 {\n		return nil\n",
		}},
		Test: Test{"fifo", "TestPurgeLeavesTheRunningJob|TestDeleteDeadLetters"},
	},
	{
		Name:   "no-ids-are-all",
		Breaks: "dead letters that nobody named are deleted",
		Edits: []Edit{{
			"fifo/deadletter.go", "	case n == 0, l.IDs != nil && len(l.IDs) == 0, some == 0:", "	case some == 0:",
		}},
		Test: Test{"fifo", "TestDeleteDeadLetters"},
	},
	{
		Name:   "letters-of-any-kind",
		Breaks: "a redrive of dead letters of one kind takes others, too",
		Edits: []Edit{{
			"fifo/sql/redrive.sql", "($6::text = '' OR d.failures -> (-1) ->> 'kind' = $6)",
			"($6::text = '' OR d.failures ->> 0 > $6)",
		}},
		Test: Test{"fifo", "TestLettersAreChosen"},
	},
	{
		Name:   "step-is-not-locked",
		Breaks: "of two who redrive a part of the dead letters at once, the second is told that there are no more",
		Edits: []Edit{{
			"fifo/sql/redrive.sql", "    LIMIT nullif($8::bigint, 0)\n    FOR UPDATE\n",
			"    LIMIT nullif($8::bigint, 0)\n",
		}},
		Test: Test{"fifo", "TestRedrivesAtOnce"},
	},
	{
		Name:   "retention-of-others",
		Breaks: "dead letters are deleted whose queue keeps them longer than another one, or for ever",
		Edits: []Edit{{
			"fifo/sql/expire_dead_letters.sql",
			"        WHERE l.queue = q.queue::text\n          AND ", "        WHERE ",
		}},
		Test: Test{"fifo", "TestSweep"},
	},
	{
		Name:   "moved-job-is-not-told",
		Breaks: "workers learn of what has moved to a queue of dead letters at their next poll",
		Edits: []Edit{{
			"fifo/settle.go", "r.outcome == Buried && r.moved != \"\" {", "r.outcome == Buried && r.moved == \"?\" {",
		}},
		Test: Test{"fifo", "TestDeadLetterQueue"},
	},
	{
		Name:   "resume-is-not-told",
		Breaks: "workers learn of what is resumed at their next poll",
		Edits: []Edit{{
			"fifo/pause.go", "	s.announce(xid, s.hint)\n	return true, nil\n", "	return true, nil\n",
		}},
		Test: Test{"fifo", "TestResumeIsAnnounced"},
	},
}
