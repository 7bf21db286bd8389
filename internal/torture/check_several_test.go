package torture

import (
	"slices"
	"testing"
)

// marked begins an attempt of a group of which several jobs may run at once, that was marked by that transaction.
func (b *book) marked(proc int32, job int64, attempt int32, mark int64) *book {
	b.starts(proc, job, 4, attempt).event(proc, evTx, 4, job, attempt, 70+job, "-")
	return b.event(proc, evMark, 4, job, attempt, mark, "-")
}

// several has so many jobs under way at once, and the last one is done first.
func (b *book) several(n int64) {
	for job := int64(10); job < 10+n; job++ {
		b.send(job, job, 4, resOK)
	}
	for job := int64(10); job < 10+n; job++ {
		b.marked(0, job, 1, 500+job)
	}
	for job := 10 + n - 1; job >= 10; job-- {
		b.comes(0, job, 4, 1, "ok", "succeeded")
	}
}

// inOrder has two jobs started, whose stamps are in the other order, with those marks.
func (b *book) inOrder(first, second int64) {
	b.twoIn(4).marked(1, 11, 1, second).marked(0, 10, 1, first).comes(0, 10, 4, 1, "ok", "succeeded")
	b.comes(1, 11, 4, 1, "ok", "succeeded")
}

// held has a job that fails and is tried again after three seconds, and the next one start so many milliseconds after
// that has failed.
func (b *book) held(after int64) {
	b.twoIn(4).marked(0, 10, 1, 500).comes(0, 10, 4, 1, "error", "retried").later(after).marked(1, 11, 1, 501)
	b.comes(1, 11, 4, 1, "ok", "succeeded").later(3000-after).marked(0, 10, 2, 502)
	b.comes(0, 10, 4, 2, "ok", "succeeded")
}

// waits has jobs 10 and 11 run, and those of beside, and job 15 start so many milliseconds later: when one of three has
// ended, or beside two.
func (b *book) waits(later int64, beside ...int64) {
	jobs := append([]int64{10, 11}, beside...)
	for _, job := range append(slices.Clone(jobs), 15) {
		b.send(job, job, 4, resOK)
	}
	for _, job := range jobs {
		b.marked(0, job, 1, 500+job)
	}
	b.later(later)
	if len(beside) > 0 {
		b.comes(0, 10, 4, 1, "ok", "succeeded")
		jobs = jobs[1:]
	}
	b.marked(0, 15, 1, 515)
	for _, job := range append([]int64{15}, jobs...) {
		b.comes(0, job, 4, 1, "ok", "succeeded")
	}
}

// dies has an attempt's worker killed, and the next one have that number. Meanwhile something happens.
func (b *book) dies(next int32, meanwhile func()) {
	b.warm().send(10, 10, 4, resOK).marked(2, 10, 1, 500).kill()
	meanwhile()
	b.marked(0, 10, next, 501).comes(0, 10, 4, next, "ok", "succeeded")
}

// Where several jobs of a group may run at once: I3, I4, I6 and I13.
func TestBrokenSeveralHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"as many at once as a group's limit says":    {"", func(b *book) { b.several(severalOf) }},
		"one more at once than a group's limit says": {"I13", func(b *book) { b.several(severalOf + 1) }},
		"two attempts of a job at once": {"I3", func(b *book) {
			b.send(10, 10, 4, resOK).marked(0, 10, 1, 500).marked(1, 10, 2, 501)
			b.comes(1, 10, 4, 2, "ok", "succeeded").comes(0, 10, 4, 1, "error", "returned")
		}},
		"stamps are in another order than starts": {"", func(b *book) { b.inOrder(500, 501) }},
		"starts in another order":                 {"I4", func(b *book) { b.inOrder(501, 500) }},
		"starts in another order, and one was committed late": {"", func(b *book) {
			b.inOrder(501, 500)
			b.enqueues[len(b.enqueues)-2].back = b.enqueues[len(b.enqueues)-1].invoke + 1
		}},
		"starts in another order, and a session was lost meanwhile": {"", func(b *book) {
			b.mark(faultTerminate, "w1", 99).inOrder(501, 500)
		}},
		"a job starts while the head backs off": {"I4", func(b *book) { b.held(1500) }},
		"a job starts while the head backs off, or was lost before its handler began": {"", func(b *book) {
			b.held(1500)
			b.mark(faultKill, "w3", 0)
			for i := range b.events {
				if e := &b.events[i]; e.attempt == 2 && e.job == 10 {
					e.attempt = 3
				}
			}
			b.effects[len(b.effects)-1].attempt = 3
			b.marks[len(b.marks)-1].at -= 1000 * ms
		}},
		"a job starts while the head backs off, or was given back with its session": {"", func(b *book) {
			b.held(1500)
			b.mark(faultTerminate, "w3", 99)
			b.marks[len(b.marks)-1].at -= 1000 * ms
		}},
		"a job starts that was claimed before it failed": {"", func(b *book) { b.held(500) }},
		"a job starts when the head was tried again":     {"", func(b *book) { b.held(2950) }},
		"a job starts while the head backs off, by a process that was frozen since its claim": {"", func(b *book) {
			b.held(1500)
			for i := range b.events {
				if e := &b.events[i]; e.job == 11 && e.kind == evStart {
					b.marks = append(b.marks, mark{at: e.at - 1400*ms, what: faultStop, proc: "w2"},
						mark{at: e.at - 1, what: "cont", proc: "w2"})
				}
			}
		}},
		"a handler begins without a mark": {"I6", func(b *book) {
			b.send(10, 10, 4, resOK).marked(0, 10, 1, -1).comes(0, 10, 4, 1, "ok", "succeeded")
		}},
		"a handler begins without a mark, and the log says so": {"", func(b *book) {
			b.send(10, 10, 4, resOK).event(0, evTrouble, 0, 0, 0, 0, `level=WARN msg="pgfifo: attempt not marked"`)
			b.marked(0, 10, 1, -1).comes(0, 10, 4, 1, "ok", "succeeded")
		}},
		"a lost attempt is counted":     {"", func(b *book) { b.dies(2, func() {}) }},
		"a lost attempt is not counted": {"I6", func(b *book) { b.dies(1, func() {}) }},
		"a lost attempt is not counted, and an operator had it locked": {"I6", func(b *book) {
			b.dies(1, func() { b.noted(faultOperator, "", " lock of 2 jobs of several/g4") })
		}},
		"a lost attempt is not counted, and the server went down": {"I6", func(b *book) {
			b.dies(1, func() { b.restart() })
		}},
		"a later job has the lower token": {"", func(b *book) {
			b.twoIn(4)
			for i, job := range []int64{10, 11} {
				b.marked(0, job, 1, 500+job).event(0, evFence, 4, job, 1, 201-int64(i), "-")
				b.write(4, job, 1, 201-int64(i), true).comes(0, job, 4, 1, "ok", "succeeded")
			}
		}},
		"a later attempt has the lower token": {"I3-fence", func(b *book) {
			b.send(10, 10, 4, resOK)
			for i := range int64(2) {
				b.marked(0, 10, int32(1+i), 500+i).event(0, evFence, 4, 10, int32(1+i), 201-i, "-")
				b.comes(0, 10, 4, int32(1+i), []string{"error", "ok"}[i], []string{"retried", "succeeded"}[i])
			}
		}},
		"a job waits for long for whom there is room":    {"I12", func(b *book) { b.waits(13_000) }},
		"a job waits for a while for whom there is room": {"", func(b *book) { b.waits(1500) }},
		"a job waits for one of three to end":            {"", func(b *book) { b.waits(13_000, 12) }},
		"a slot is locked, and no job of its group runs": {"I8", func(b *book) { b.lockedAs(99, "several/g4") }},
	})
}
