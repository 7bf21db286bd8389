package torture

import (
	"testing"
)

// Handlers at once, and handlers that are not told: I3.
func TestBrokenOverlapHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"two handlers at once": {"I3", func(b *book) { b.overlap(func() {}) }},
		"two handlers at once after a terminate, for a moment": {"", func(b *book) {
			b.overlap(func() { b.mark(faultTerminate, "w1", 71) })
		}},
		"two handlers at once after a terminate of another session": {"I3", func(b *book) {
			b.overlap(func() { b.mark(faultTerminate, "w1", 99) })
		}},
		"two handlers at once after a freeze": {"", func(b *book) {
			b.overlap(func() { b.mark(faultStop, "w1", 0).later(3100) }, func() {
				b.later(2000).mark("cont", "w1", 0)
			})
		}},
		"two handlers at once soon after a process was frozen": {"I3", func(b *book) {
			b.overlap(func() { b.mark(faultStop, "w1", 0) }, func() { b.later(5000).mark("cont", "w1", 0) })
		}},
		"a handler starts too late, because its process was frozen since its claim": {"", func(b *book) {
			b.mark(faultStop, "w2", 0).later(4000).mark("cont", "w2", 0).overlap(func() {})
			b.events[len(b.events)-3].word = "unknown"
			b.effects = b.effects[:len(b.effects)-1]
			b.effect(1, 10, 1)
			b.events[len(b.events)-2].word = "ok"
			b.events[len(b.events)-1].word = "succeeded"
		}},
		"two handlers at once in a partition": {"I3", func(b *book) {
			b.overlap(func() { b.mark("cut", "w1", 0).later(1500) })
		}},
		"two handlers at once in a partition, of which the first was told": {"", func(b *book) {
			b.overlap(func() { b.mark("cut", "w1", 0).later(1300).event(0, evLost, 1, 10, 1, 0, "-").later(1500) })
		}},
		"two handlers at once after a terminate, and both are recorded": {"I3", func(b *book) {
			b.overlap(func() { b.mark(faultTerminate, "w1", 71) })
			b.events[len(b.events)-1].word = "retried"
		}},
		"a handler is not told of a partition": {"I3-lease", func(b *book) {
			b.alone(func() { b.mark("cut", "w1", 0).later(5000) })
		}},
		"a handler is told of a partition": {"", func(b *book) {
			b.alone(func() { b.mark("cut", "w1", 0).later(1300).event(0, evLost, 1, 10, 1, 0, "-").later(5000) })
		}},
		"a handler is told of a terminate when its process has begun the next attempt": {"", func(b *book) {
			b.running().mark(faultTerminate, "w1", 71).starts(0, 10, 1, 2).later(10)
			b.event(0, evLost, 1, 10, 1, 0, "-").later(5000).comes(0, 10, 1, 2, "ok", "succeeded")
		}},
		"a handler in a statement is not told that what is sent is lost": {"", func(b *book) {
			b.alone(func() {
				b.noted("cut", "w1", "what goes to the server"+noteLoss).later(5000).mark("healed", "w1", 0)
			})
		}},
		"a handler in no statement is not told that what is sent is lost": {"I3-lease", func(b *book) {
			b.alone(func() {
				b.event(0, evWrite, 1, 10, 1, 200, "accepted")
				b.noted("cut", "w1", "what goes to the server"+noteLoss).later(5000).mark("healed", "w1", 0)
			})
		}},
		"a handler with rows open for long is not told": {"I3-lease", func(b *book) {
			b.alone(func() { b.reads(20e6, 5000) })
			b.again()
		}},
		"a handler with rows open for long is told": {"", func(b *book) {
			b.alone(func() {
				b.event(0, evRows, 1, 10, 1, 20e6, "-").later(1300).event(0, evLost, 1, 10, 1, 0, "-").later(4000)
			})
			b.again()
		}},
		"a handler with rows open for long is killed": {"", func(b *book) {
			b.send(10, 10, 1, resOK).starts(0, 10, 1, 1).event(0, evRows, 1, 10, 1, 200, "-")
			b.later(5000).mark(faultKill, "w1", 0).done(1, 10, 1, 2)
		}},
		"a handler with rows open for long returns, and its worker is killed before it tells": {"", func(b *book) {
			b.send(10, 10, 1, resOK).starts(0, 10, 1, 1).event(0, evRows, 1, 10, 1, 200, "-")
			b.later(5000).event(0, evEnd, 1, 10, 1, 0, "ok").later(20).mark(faultKill, "w1", 0).done(1, 10, 1, 2)
		}},
		"a handler with rows open for long has its session ended": {"", func(b *book) {
			b.alone(func() {
				b.event(0, evRows, 1, 10, 1, 200, "-").later(5000).mark(faultTerminate, "w1", 71)
				b.event(0, evLost, 1, 10, 1, 0, "-")
			})
			b.again()
		}},
		"a handler with rows open for long keeps its job": {"", func(b *book) {
			b.alone(func() { b.reads(20e6, 5000) })
		}},
		"a handler with rows open for long keeps its job, and its worker ends before it tells": {"", func(b *book) {
			b.alone(func() { b.reads(20e6, 5000) })
			b.events = b.events[:len(b.events)-1]
		}},
	})
}
