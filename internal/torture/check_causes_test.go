package torture

import (
	"slices"
	"testing"
)

// lostAlone has an attempt of a live worker that is lost, and the job runs again.
func (b *book) lostAlone(meanwhile func()) {
	b.running()
	meanwhile()
	b.ends(0, 10, 1, 1, "error", "unknown").done(1, 10, 1, 2)
}

// uncounted has the number of the attempt behind that of lostAlone be the same.
func (b *book) uncounted() {
	for i := range b.events[len(b.events)-4:] {
		b.events[len(b.events)-4+i].attempt = 1
	}
	b.effects[len(b.effects)-1].attempt = 1
}

// unsaid has the worker of lostAlone say nothing of what became of it.
func (b *book) unsaid() {
	b.events = slices.DeleteFunc(b.events, func(e event) bool { return e.kind == evSettled && e.word == "unknown" })
}

// An attempt of a live worker is lost for a cause that is in the record, or the queue lost it.
func TestCauses(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"it was lost before its handler began": {"", func(b *book) {
			b.send(10, 10, 1, resOK).run(0, 10, 1, 1, "ok", "returned").later(300)
			b.event(0, evSettled, 1, 10, 1, 0, "unknown").done(1, 10, 1, 1)
		}},
		"nothing was done":          {"I6", func(b *book) { b.lostAlone(func() {}) }},
		"its session was ended":     {"", func(b *book) { b.lostAlone(func() { b.mark(faultTerminate, "w1", 71) }) }},
		"another session was ended": {"I6", func(b *book) { b.lostAlone(func() { b.mark(faultTerminate, "w1", 72) }) }},
		"another process was hit":   {"I6", func(b *book) { b.lostAlone(func() { b.mark(faultReset, "w2", 0) }) }},
		"a session of its pool was ended": {"I6", func(b *book) {
			b.lostAlone(func() { b.mark(faultTerminate, "pool-w1", 90) })
		}},
		"its connections were reset": {"", func(b *book) { b.lostAlone(func() { b.mark(faultReset, "w1", 0) }) }},
		"it was held for longer than ever": {"I6", func(b *book) {
			b.lostAlone(func() { b.mark(faultHold, "w1", 0).later(5500) })
		}},
		"something was done long before": {"I6", func(b *book) {
			b.mark(faultReset, "w1", 0).later(7000).lostAlone(func() {})
		}},
		"something was done when it was over": {"I6", func(b *book) {
			b.lostAlone(func() {})
			b.mark(faultReset, "w1", 0)
		}},
		"it was cut off when it began": {"", func(b *book) {
			b.mark("cut", "w1", 0).lostAlone(func() { b.later(100).mark("healed", "w1", 0) })
		}},
		"it was frozen": {"", func(b *book) {
			b.lostAlone(func() { b.mark(faultStop, "w1", 0).later(1000).mark("cont", "w1", 0) })
		}},
		"a COMMIT's answer was lost, which was to be before its process was there": {"", func(b *book) {
			b.lostAlone(func() { b.mark("lost", "w1", 0) })
		}},
		"it did not get to run": {"", func(b *book) {
			b.lostAlone(func() { b.later(1000).event(0, evStall, 0, 0, 0, 900*ms, "-") })
		}},
		"the server went down": {"", func(b *book) { b.lostAlone(func() { b.restart() }) }},
		"the server was slow": {"", func(b *book) {
			b.lostAlone(func() { b.later(1100).noted(markSlow, "", "1.05s") })
		}},
		"its handler was told, and it was not lost": {"I6", func(b *book) {
			b.alone(func() { b.event(0, evLost, 1, 10, 1, 0, "-") })
		}},
		"it was short, and is not counted, by bad luck": {"", func(b *book) {
			b.warmIn(0).lostAlone(func() { b.mark(faultReset, "w1", 0) })
			b.uncounted()
		}},
		"it was long, and is not counted": {"I6", func(b *book) {
			b.lostAlone(func() { b.later(1500).mark(faultReset, "w1", 0) })
			b.uncounted()
		}},
		"it was long, and is not counted, but the server was busy": {"", func(b *book) {
			b.warmIn(0).lostAlone(func() { b.later(1500).noted(markSlow, "", "1.5s").mark(faultReset, "w1", 0) })
			b.uncounted()
		}},
		"it was long, and is not counted, and the server was busy for a part of it": {"I6", func(b *book) {
			b.warmIn(0).lostAlone(func() { b.later(1500).noted(markSlow, "", "1s").mark(faultReset, "w1", 0) })
			b.uncounted()
		}},
		"it was given back, and its worker died before it said so": {"", func(b *book) {
			b.lostAlone(func() { b.now += 1500 })
			b.uncounted()
			b.unsaid()
			b.mark(faultKill, "w1", 0)
		}},
		"it is not counted, and its worker had time to say why": {"I6", func(b *book) {
			b.lostAlone(func() { b.now += 1500 })
			b.uncounted()
			b.unsaid()
			b.later(6000).mark(faultKill, "w1", 0)
		}},
		"its handler returned while a statement was under way": {"", func(b *book) {
			b.lostAlone(func() {})
			for i := range b.events {
				if b.events[i].job == 10 && b.events[i].kind == evStart && b.events[i].attempt == 1 {
					b.events[i].word = doInFlight
				}
			}
		}},
		"it had many rows open for long":  {"", func(b *book) { b.lostAlone(func() { b.reads(20e6, 1200) }) }},
		"it had many rows open":           {"I6", func(b *book) { b.lostAlone(func() { b.reads(20e6, 800) }) }},
		"it had a few rows open for long": {"I6", func(b *book) { b.lostAlone(func() { b.reads(200, 1200) }) }},
		"its handler returned nil, and it is tried again": {"I6", func(b *book) {
			b.send(10, 10, 1, resOK).run(0, 10, 1, 1, "ok", "retried").done(0, 10, 1, 2)
		}},
		"its handler returned nil, and had swallowed an error": {"", func(b *book) {
			b.send(10, 10, 1, resOK).run(0, 10, 1, 1, "ok", "retried")
			b.events[len(b.events)-4].word = doSwallow
			b.done(0, 10, 1, 2)
		}},
		"its worker stopped and does not know": {"I6", func(b *book) {
			b.send(10, 10, 1, resOK).done(0, 10, 1, 1)
			b.events = b.events[:len(b.events)-1]
			b.event(0, evDown, 0, 0, 0, 0, "-")
		}},
	})
}
