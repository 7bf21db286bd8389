package torture

import (
	"cmp"
	"slices"
	"testing"
)

// Limits and deduplication: I13 and I14.
func TestBrokenContractHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"as many jobs at once as a limit says":   {"", func(b *book) { b.atOnce(limit, 5) }},
		"one job more at once than a limit says": {"I13", func(b *book) { b.atOnce(limit+1, 5) }},
		"one more, and the session of another was ended": {"", func(b *book) {
			b.mark(faultTerminate, "w1", 70).atOnce(limit+1, 5)
			for i := range b.events {
				if e := &b.events[i]; e.job == 30 && e.kind == evSettled {
					e.word = "unknown"
				}
			}
			b.effects = b.effects[:len(b.effects)-limit-1]
			for job := int64(31); job <= 30+limit; job++ {
				b.effect(int32(job-30)*20+5, job, 1)
			}
			b.done(1, 30, 5, 2)
		}},
		"a handler gives a job back, and that counts": {"I6", func(b *book) {
			b.send(10, 10, 1, resOK).event(0, evStart, 1, 10, 1, 10, doAway).ends(0, 10, 1, 1, wordAway, "retried")
			b.done(0, 10, 1, 2)
		}},
		"a handler gives a job back": {"", func(b *book) {
			b.send(10, 10, 1, resOK).event(0, evStart, 1, 10, 1, 10, doAway).ends(0, 10, 1, 1, wordAway, "snoozed")
			b.done(0, 10, 1, 1)
		}},
		"a handler gives a job back, and its worker is killed before it says so": {"", func(b *book) {
			b.givenBack(wordAway)
		}},
		"a handler gives a job back, and its worker is not told": {"", func(b *book) {
			b.mark(faultReset, "w3", 0).givenBack(wordAway)
			for i := range b.events {
				if e := &b.events[i]; e.kind == evEnd && e.word == wordAway {
					e.kind, e.word = evSettled, "unknown"
					b.events = append(b.events, event{
						at: e.at, kind: evEnd, proc: e.proc, group: e.group, job: e.job, attempt: e.attempt,
						word: wordAway,
					})
				}
			}
			slices.SortStableFunc(b.events, func(x, y event) int { return cmp.Compare(x.at, y.at) })
		}},
		"a handler fails, and its worker is killed before it says so": {"I6", func(b *book) { b.givenBack("error") }},
		"a duplicate":                                 {"", func(b *book) { b.twins(resOK, 10, true) }},
		"a duplicate of another job":                  {"I14", func(b *book) { b.twins(resOK, 4, true) }},
		"a duplicate of a message that was not there": {"I14", func(b *book) { b.twins(resFailed, 10, true) }},
		"a duplicate of a message that is gone":       {"I14", func(b *book) { b.twins(resUnknown, 10, true) }},
		"a newer message replaces the job's":          {"", func(b *book) { b.replaced(resOK, 11) }},
		"it does, and the older one runs":             {"I1", func(b *book) { b.replaced(resOK, 10) }},
		"it does with one that was not there":         {"I14", func(b *book) { b.replaced(resFailed, 11) }},
		"both of two are enqueued": {"I14", func(b *book) {
			b.twins(resOK, 11, false)
			b.done(0, 11, 1, 1)
		}},
		"one of two takes the other's place": {"", func(b *book) {
			b.twins(resFailed, 11, false)
			b.done(0, 11, 1, 1)
		}},
	})
}

// atOnce has so many jobs of the queue of a group under way at once, each of a group of its own.
func (b *book) atOnce(n, group int32) {
	for i := range n {
		b.send(int64(30+i), int64(30+i), group+20*i, resOK)
	}
	for i := range n {
		b.starts(0, int64(30+i), group+20*i, 1)
	}
	for i := range n {
		b.comes(0, int64(30+i), group+20*i, 1, "ok", "succeeded")
	}
}

// givenBack has a handler end with that word, and its worker killed. The attempt is not counted.
func (b *book) givenBack(word string) {
	b.warm().send(10, 10, 1, resOK).run(2, 10, 1, 1, "error", "retried").starts(2, 10, 1, 2)
	b.event(2, evEnd, 1, 10, 2, 0, word).mark(faultKill, "w3", 0).done(0, 10, 1, 2)
}

// twins enqueues messages 10 and 11 with one DedupID: the first with that result, which runs if it is there, and the
// second as the job, or as a duplicate of it.
func (b *book) twins(first result, job int64, duplicate bool) {
	id := int64(10)
	if first != resOK {
		id = 0
	}
	b.send(10, id, 1, first)
	if duplicate {
		b.send(11, job, 1, resFailed)
		b.enqueues[len(b.enqueues)-1].why = aDuplicate
	} else {
		b.send(11, job, 1, resOK)
	}
	for i := range b.enqueues[len(b.enqueues)-2:] {
		b.enqueues[len(b.enqueues)-2+i].twins = 10
	}
	if first == resOK {
		b.done(0, 10, 1, 1)
	}
}

// replaced enqueues message 10 as job 10, with that result, and message 11, which takes its place; then that job runs
// as one of them.
func (b *book) replaced(first result, as int64) {
	b.twins(first, 10, true)
	last := &b.enqueues[len(b.enqueues)-1]
	last.result, last.why, last.replaced = resOK, "", true
	if first == resOK { // undo what twins has run
		b.events, b.effects = b.events[:len(b.events)-4], b.effects[:len(b.effects)-1]
	}
	b.event(0, evStart, 1, 10, 1, as, "-").event(0, evTx, 1, 10, 1, 70, "-").comes(0, 10, 1, 1, "ok", "succeeded")
	b.effects[len(b.effects)-1].msg = as
}
