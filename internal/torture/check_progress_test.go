package torture

import "testing"

// many has jobs of a group that begin so many milliseconds after their turn.
func (b *book) many(from, count, wait int64) *book {
	for id := from; id < from+count; id++ {
		b.send(id, id, 1, resOK).later(wait).done(0, id, 1, 1)
	}
	return b
}

// waitsBeside has a job that waits while so many groups have so many turns each, one every few milliseconds.
func (b *book) waitsBeside(groups, turns, each int64) {
	b.send(9999, 9999, 2000, resOK)
	for n := range groups * turns {
		group := 20 * (1 + int32(n%groups))
		b.send(10+n, 10+n, group, resOK).later(each).done(0, 10+n, group, 1)
	}
	b.done(0, 9999, 2000, 1)
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
		"a job waits while many others have a turn each": {"", func(b *book) { b.waitsBeside(60, 1, 220) }},
		"a job waits while many others have many turns":  {"I12", func(b *book) { b.waitsBeside(60, 9, 25) }},
		"a job waits while few others have a turn each":  {"I12", func(b *book) { b.waitsBeside(40, 1, 330) }},
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
