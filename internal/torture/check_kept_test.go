package torture

import "testing"

const keptGroup = 7 // of queueKept

// begins begins an attempt of a job of a group that a session has, with the claim's token.
func (b *book) begins(proc int32, job int64, attempt int32, token int64) *book {
	return b.starts(proc, job, keptGroup, attempt).event(proc, evFence, keptGroup, job, attempt, token, "-")
}

// severed has the session that holds w1's groups end in the middle of a job, whose handler is told, or not. The next
// functions say what follows.
func (b *book) severed(told bool, then ...func()) {
	b.send(10, 10, keptGroup, resOK).begins(0, 10, 1, 200).noted(faultTerminate, "w1", noteHolds)
	b.marks[len(b.marks)-1].pid = 99
	b.later(100)
	if told {
		b.event(0, evLost, keptGroup, 10, 1, 0, "-")
	}
	for _, f := range then {
		f()
	}
}

// takes has w2 take the job over, and do it.
func (b *book) takes(attempt int32) func() {
	return func() { b.begins(1, 10, attempt, 201).comes(1, 10, keptGroup, attempt, "ok", "succeeded") }
}

// former has the former holder end.
func (b *book) former(word, outcome string) func() {
	return func() { b.comes(0, 10, keptGroup, 1, word, outcome) }
}

// keptBy has a group's row name a session of that process for twelve seconds.
func (b *book) keptBy(who string) {
	for range 13 {
		b.samples = append(b.samples, lockSample{b.now * ms, b.now * ms, "kept/g7", 99, keptMark + "5", who})
		b.later(1000)
	}
}

// Where groups are a session's: I3, I5, I6 and I8.
func TestBrokenKeptHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"a session ends, and its job runs again": {"", func(b *book) {
			b.severed(true, b.takes(2), b.former("error", "unknown"))
		}},
		"a session ends, and its handler is not told": {"I3-lease", func(b *book) {
			b.severed(false, func() { b.later(5000) }, b.former("ok", "succeeded"))
		}},
		"a session ends, and its job is completed all the same": {"", func(b *book) {
			b.severed(true, b.former("ok", "succeeded"))
		}},
		"a session ends, and its job is completed although somebody has it": {"I5", func(b *book) {
			b.severed(true, func() { b.begins(1, 10, 2, 201) }, b.former("ok", "succeeded"), func() {
				b.comes(1, 10, keptGroup, 2, "error", "returned")
			})
		}},
		"a session ends, and the lost attempt is not counted": {"I6", func(b *book) {
			b.severed(true, b.takes(1), b.former("error", "unknown"))
		}},
		"a session ends that is no holder's, and the job runs beside itself": {"I3", func(b *book) {
			b.running().noted(faultTerminate, "w1", noteHolds)
			b.marks[len(b.marks)-1].pid = 99
			b.done(1, 10, 1, 2).ends(0, 10, 1, 1, "error", "returned")
		}},
		"two handlers at once": {"I3", func(b *book) {
			b.send(10, 10, keptGroup, resOK).begins(0, 10, 1, 200)
			b.takes(1)()
			b.former("error", "returned")()
		}},
		"a lost attempt is not counted, and the server went down": {"I6", func(b *book) {
			b.send(10, 10, keptGroup, resOK).begins(0, 10, 1, 200).restart().event(0, evLost, keptGroup, 10, 1, 0, "-")
			b.former("error", "unknown")()
			b.takes(1)()
		}},
		"a lost attempt is not counted, and another worker's session ended": {"I6", func(b *book) {
			b.warm().send(10, 10, keptGroup, resOK).starts(2, 10, keptGroup, 1).later(1500).kill()
			b.mark(faultTerminate, "w1", 77)
			b.takes(1)()
		}},
		"a handler begins, and its group's row does not say so": {"I6", func(b *book) {
			b.send(10, 10, keptGroup, resOK).begins(0, 10, 1, 200).event(0, evMark, keptGroup, 10, 1, -1, "-")
			b.former("ok", "succeeded")()
		}},
		"a handler begins, and its group's row does not say so, as its session has just ended": {"", func(b *book) {
			b.severed(true, func() { b.event(0, evMark, keptGroup, 10, 1, -1, "-") }, b.former("ok", "succeeded"))
		}},
		"a later claim has a lower token": {"I3-fence", func(b *book) {
			b.send(10, 10, keptGroup, resOK).begins(0, 10, 1, 201).comes(0, 10, keptGroup, 1, "error", "retried")
			b.begins(0, 10, 2, 200).comes(0, 10, keptGroup, 2, "ok", "succeeded")
		}},
		"a handler begins late, with a lower token, as its process was frozen": {"", func(b *book) {
			b.send(10, 10, keptGroup, resOK).mark(faultStop, "w1", 0).later(6000)
			b.takes(2)()
			b.later(500).mark("cont", "w1", 0).begins(0, 10, 1, 200).event(0, evLost, keptGroup, 10, 1, 0, "-")
			b.former("error", "unknown")()
			b.mark(faultKill, "w4", 0)
			b.marks[len(b.marks)-1].at -= 6000 * ms
		}},
		"more at once than the queue's limit":        {"I13", func(b *book) { b.atOnce(limit+1, 12) }},
		"as many at once as the queue's limit":       {"", func(b *book) { b.atOnce(limit, 12) }},
		"a session has a group and does not work it": {"I8", func(b *book) { b.keptBy("w1") }},
		"a session that is dead has a group":         {"I8", func(b *book) { b.keptBy("nobody") }},
		"a session has a group and works it": {"", func(b *book) {
			b.send(10, 10, keptGroup, resOK).begins(0, 10, 1, 200).keptBy("w1")
			b.former("ok", "succeeded")()
		}},
		"a group is a session's at the end": {"I8", func(b *book) { b.end.Kept = 1 }},
	})
}
