package torture

import "testing"

// many has jobs of a group that begin so many milliseconds after their turn.
func (b *book) many(from, count, wait int64) *book {
	for id := from; id < from+count; id++ {
		b.send(id, id, 1, resOK).later(wait).done(0, id, 1, 1)
	}
	return b
}

// waitsBeside has a job that waits while so many others start, one every few milliseconds: together, if all were sent
// before the first one starts, and so wait as well.
func (b *book) waitsBeside(others, each int64, together bool) {
	group := func(n int64) int32 { return 20 * int32(1+n) } // they are all of one queue
	b.send(9999, 9999, group(others), resOK)
	for n := range others {
		if together {
			b.send(10+n, 10+n, group(n), resOK)
		}
	}
	for n := range others {
		if !together {
			b.send(10+n, 10+n, group(n), resOK)
		}
		b.later(each).done(0, 10+n, group(n), 1)
	}
	b.done(0, 9999, group(others), 1)
}

// delayed has jobs that were delayed, and begin so many milliseconds later.
func (b *book) delayed(late int64) {
	for id := int64(100); id < 130; id++ {
		b.send(id, id, 1, resOK)
		b.enqueues[len(b.enqueues)-1].delay = 1000 * ms
		b.later(1000+late).done(0, id, 1, 1)
	}
}

// clash has a job that cannot be given up for a while, and is tried so often.
func (b *book) clash(tries int) {
	b.send(900, 900, 2, resOK)
	b.enqueues[len(b.enqueues)-1].how = howClash
	b.mark(faultClash, "", 0)
	for range tries {
		b.run(0, 900, 2, 1, "error on purpose", "unknown")
		b.events[len(b.events)-4].word = doLetter
	}
}

// Groups that wait although nothing is wrong with them, and lanes that are not free: I12.
func TestBrokenProgressHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"a job waits for long":    {"I12", func(b *book) { b.many(10, 1, 13_000) }},
		"a job waits for a while": {"", func(b *book) { b.many(10, 1, 1500) }},
		"a job waits for the server": {"", func(b *book) {
			b.send(10, 10, 1, resOK).mark(faultRestart, "", 0).later(13_000).mark("resumed", "", 0).done(0, 10, 1, 1)
		}},
		"a job waits for a process that does not get to run": {"", func(b *book) {
			b.send(10, 10, 1, resOK).later(5000).event(0, evStall, 0, 0, 0, 2000*ms, "-").later(8000).done(0, 10, 1, 1)
		}},
		"a job waits for long beside a short stall": {"I12", func(b *book) {
			b.send(10, 10, 1, resOK).later(5000).event(0, evStall, 0, 0, 0, 500*ms, "-").later(8000).done(0, 10, 1, 1)
		}},
		"a job waits behind many others that wait, too": {"", func(b *book) { b.waitsBeside(60, 220, true) }},
		"a job waits beside others that do not":         {"I12", func(b *book) { b.waitsBeside(60, 220, false) }},
		"a job waits behind few others":                 {"I12", func(b *book) { b.waitsBeside(15, 880, true) }},
		"a job waits because it is delayed": {"", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.enqueues[len(b.enqueues)-1].delay = 13_000 * ms
			b.later(13_000).done(0, 10, 1, 1)
		}},
		"jobs wait beside a group in trouble": {"I12", func(b *book) {
			b.many(10, 30, 5).clash(3)
			b.many(50, 30, 600).mark("cleared", "", 0).bury(2, 900, 1)
		}},
		"jobs do not wait beside a group in trouble": {"", func(b *book) {
			b.many(10, 30, 5).clash(3)
			b.many(50, 30, 10).mark("cleared", "", 0).bury(2, 900, 1)
		}},
		"jobs wait beside a group in trouble, and for their process": {"", func(b *book) {
			b.many(10, 30, 5).clash(3)
			for id := int64(50); id < 53; id++ {
				b.send(id, id, 1, resOK).later(3000).event(0, evStall, 0, 0, 0, 3000*ms, "-").later(2800)
				b.done(0, id, 1, 1)
			}
			b.many(60, 27, 5)
			b.mark("cleared", "", 0).bury(2, 900, 1)
		}},
		"delayed jobs start late":       {"I12", func(b *book) { b.many(10, 30, 5); b.delayed(1500) }},
		"delayed jobs start punctually": {"", func(b *book) { b.many(10, 30, 5); b.delayed(500) }},
		"a job that cannot be given up is tried again and again": {"I12", func(b *book) {
			b.clash(50)
			b.mark("cleared", "", 0).bury(2, 900, 1)
		}},
		"a lane waits for what a handler has left behind": {"I12", func(b *book) {
			b.send(10, 10, 1, resOK).run(0, 10, 1, 1, "ok", "succeeded")
			b.events[len(b.events)-1].at += 6000 * ms
			b.later(6000).effect(1, 10, 1)
		}},
	})
}
