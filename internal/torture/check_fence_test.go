package torture

import "testing"

// thawed has a holder that was frozen ask for its token when it goes on, behind its successor. 0: that is refused.
func (b *book) thawed(token int64) {
	b.send(10, 10, 1, resOK).starts(0, 10, 1, 1).mark(faultStop, "w1", 0).later(3500)
	b.starts(1, 10, 1, 2).event(1, evFence, 1, 10, 2, 200, "-").comes(1, 10, 1, 2, "ok", "succeeded")
	b.later(2000).mark("cont", "w1", 0)
	if token != 0 {
		b.event(0, evFence, 1, 10, 1, token, "-")
	}
	b.ends(0, 10, 1, 1, "error", "unknown")
}

// Tokens, and what the sink takes: I3.
func TestBrokenFenceHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"a former holder is refused a token":                  {"", func(b *book) { b.thawed(0) }},
		"a former holder has asked long ago":                  {"", func(b *book) { b.thawed(199) }},
		"a former holder is given one as if it had the group": {"I3-fence", func(b *book) { b.thawed(201) }},
		"a later attempt has a lower token": {"I3-fence", func(b *book) {
			b.send(10, 10, 1, resOK).tokens(10, 1, 201, "error", "retried")
			b.tokens(10, 2, 200, "ok", "succeeded").effect(1, 10, 2)
		}},
		"the sink takes a stale write": {"I3-fence", func(b *book) {
			b.send(10, 10, 1, resOK).tokens(10, 1, 200, "error", "retried")
			b.tokens(10, 2, 201, "ok", "succeeded").effect(1, 10, 2).write(1, 10, 2, 201, true)
			b.write(1, 10, 1, 200, true)
		}},
		"the sink refuses a stale write": {"", func(b *book) {
			b.send(10, 10, 1, resOK).tokens(10, 1, 200, "error", "returned")
			b.tokens(10, 2, 201, "ok", "succeeded").effect(1, 10, 2).write(1, 10, 2, 201, true)
			b.write(1, 10, 1, 200, false)
		}},
		"the sink refuses the holder's write": {"I3-fence", func(b *book) {
			b.send(10, 10, 1, resOK).tokens(10, 1, 200, "ok", "succeeded").effect(1, 10, 1)
			b.write(1, 10, 1, 200, false)
		}},
		"a token is used again in another session": {"I3-fence", func(b *book) {
			b.send(10, 10, 1, resOK)
			for i := range int64(2) {
				attempt := int32(i + 1)
				b.starts(0, 10, 1, attempt).event(0, evTx, 1, 10, attempt, 71+i, "-")
				b.event(0, evFence, 1, 10, attempt, 200, "-")
				b.event(0, evEnd, 1, 10, attempt, 0, []string{"error", "ok"}[i])
				b.event(0, evSettled, 1, 10, attempt, 0, []string{"retried", "succeeded"}[i])
			}
			b.effect(1, 10, 2)
		}},
	})
}
