package torture

import (
	"testing"
)

// Orders: I4.
func TestBrokenOrderHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"one call's messages are worked in another order": {"I4", func(b *book) {
			b.two()
			n := len(b.enqueues)
			b.enqueues[n-1].invoke, b.enqueues[n-1].back = b.enqueues[n-2].invoke, b.enqueues[n-2].back
			b.run(0, 11, 1, 1, "ok", "succeeded").run(0, 10, 1, 1, "ok", "succeeded").effect(1, 11, 1).effect(1, 10, 1)
		}},
		"a failed head is overtaken": {"I4", func(b *book) {
			b.two()
			n := len(b.enqueues)
			b.enqueues[n-1].invoke = b.enqueues[n-2].invoke + 1 // at the same time
			b.run(0, 10, 1, 1, "error", "retried").run(0, 11, 1, 1, "ok", "succeeded")
			b.run(0, 10, 1, 2, "ok", "succeeded").effect(1, 11, 1).effect(1, 10, 2)
		}},
		"commits in another order": {"I4", func(b *book) {
			b.two().run(0, 10, 1, 1, "ok", "succeeded").done(0, 11, 1, 1).effect(1, 10, 1)
		}},
		"starts in another order": {"I4", func(b *book) {
			b.two().run(0, 11, 1, 1, "ok", "succeeded").run(0, 10, 1, 1, "error", "buried").bury(1, 10, 1)
			b.effect(1, 11, 1)
		}},
		"another order of enqueues that overlapped": {"", func(b *book) {
			b.two()
			b.enqueues[len(b.enqueues)-2].back = (b.now + 3) * ms
			b.run(0, 11, 1, 1, "ok", "succeeded").run(0, 10, 1, 1, "ok", "succeeded").effect(1, 11, 1).effect(1, 10, 1)
		}},
		"a late commit is passed over for too long": {"I4", func(b *book) {
			b.two()
			b.enqueues[len(b.enqueues)-2].back = (b.now + 3) * ms
			b.enqueues[len(b.enqueues)-1].delay = 9_000 * ms
			b.later(10_000).run(0, 11, 1, 1, "ok", "succeeded").run(0, 10, 1, 1, "ok", "succeeded")
			b.effect(1, 11, 1).effect(1, 10, 1)
		}},
		"a late commit is passed over by one that came after it": {"I4", func(b *book) { b.passedOver() }},
		"ids against the order of enqueues": {"I4", func(b *book) {
			b.send(11, 11, 1, resOK).send(10, 10, 1, resOK).run(0, 10, 1, 1, "ok", "succeeded")
			b.run(0, 11, 1, 1, "ok", "succeeded").effect(1, 10, 1).effect(1, 11, 1)
		}},
		"a batch begins again": {"", func(b *book) {
			b.twoIn(3).starts(0, 10, 3, 1).event(0, evEnd, 3, 10, 1, 0, "ok")
			b.starts(0, 11, 3, 1).event(0, evEnd, 3, 11, 1, 0, "panic")
			b.event(0, evSettled, 3, 10, 1, 0, "returned").event(0, evSettled, 3, 11, 1, 0, "returned")
			b.run(1, 10, 3, 1, "ok", "succeeded").run(1, 11, 3, 1, "ok", "succeeded").effect(3, 10, 1).effect(3, 11, 1)
		}},
		"relaxed completions are taken back by a crash of the server": {"", func(b *book) { b.takenBack(8, 10, 11) }},
		"they are, in another queue": {"I4", func(b *book) {
			b.takenBack(20, 10, 11)
		}},
		"they run again in another order": {"I4", func(b *book) { b.takenBack(8, 11, 10) }},
		"the chain is not that of the effects": {"I4", func(b *book) {
			b.chains[0] = chain{hash: []byte("somebody wrote to it")}
		}},
	})
}
