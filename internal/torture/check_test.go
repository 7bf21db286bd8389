package torture

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// brokenBy returns the invariants that the checkers find broken, each once.
func brokenBy(h *history) (names []string) {
	for _, v := range check(h).violations() {
		names = append(names, v.Invariant)
	}
	return names
}

func TestSoundHistory(t *testing.T) {
	t.Parallel()
	c := check(newBook().seal())
	require.Empty(t, c.breaches)
	for _, inv := range []string{"I1", "I2", "I3", "I3-fence", "I4", "I5", "I6", "I8", "I9"} {
		require.NotZero(t, c.checked[inv], inv)
	}
}

// Each checker is able to find its invariant broken: a history that is sound but for one thing is told from a sound one.
func TestBrokenHistories(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		want string // "" for those that are sound: what is excused, and by how little
		do   func(b *book)
	}{
		"an enqueue is lost":                         {"I1", func(b *book) { b.send(10, 10, 1, resOK) }},
		"an enqueue of unknown outcome is not there": {"", func(b *book) { b.send(10, 0, 1, resUnknown) }},
		"an enqueue is done as another job": {"I1", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.run(0, 11, 1, 1, "ok", "succeeded")
			b.events[len(b.events)-4].arg = 10
			b.effect(1, 11, 1)
			b.effects[len(b.effects)-1].msg = 10
		}},
		"a rolled back message runs": {"I2", func(b *book) {
			b.send(10, 0, 1, resFailed)
			b.run(0, 10, 1, 1, "error", "retried")
		}},
		"two handlers at once": {"I3", func(b *book) {
			b.overlap(func() {})
		}},
		"two handlers at once after a terminate, for a moment": {"", func(b *book) {
			b.overlap(func() { b.mark(faultTerminate, "w1", 71) })
		}},
		"two handlers at once after a terminate of another session": {"I3", func(b *book) {
			b.overlap(func() { b.mark(faultTerminate, "w1", 99) })
		}},
		"two handlers at once after a freeze": {"", func(b *book) {
			b.overlap(func() {
				b.mark(faultStop, "w1", 0)
				b.now += 3100
			}, func() {
				b.now += 2000
				b.mark("cont", "w1", 0)
			})
		}},
		"two handlers at once soon after a process was frozen": {"I3", func(b *book) {
			b.overlap(func() { b.mark(faultStop, "w1", 0) }, func() {
				b.now += 5000
				b.mark("cont", "w1", 0)
			})
		}},
		"a handler starts too late, because its process was frozen since its claim": {"", func(b *book) {
			b.mark(faultStop, "w2", 0)
			b.now += 4000
			b.mark("cont", "w2", 0)
			b.overlap(func() {})
			b.events[len(b.events)-3].word = "unknown"
			b.effects = b.effects[:len(b.effects)-1]
			b.effect(1, 10, 1)
			b.events[len(b.events)-2].word = "ok"
			b.events[len(b.events)-1].word = "succeeded"
		}},
		"two handlers at once in a partition": {"I3", func(b *book) {
			b.overlap(func() {
				b.mark("cut", "w1", 0)
				b.now += 1500
			})
		}},
		"two handlers at once in a partition, of which the first was told": {"", func(b *book) {
			b.overlap(func() {
				b.mark("cut", "w1", 0)
				b.now += 1300
				b.event(0, evLost, 1, 10, 1, 0, "-")
				b.now += 1500
			})
		}},
		"a handler is not told of a partition": {"I3-lease", func(b *book) {
			b.alone(func() {
				b.mark("cut", "w1", 0)
				b.now += 5000
			})
		}},
		"a handler is told of a partition": {"", func(b *book) {
			b.alone(func() {
				b.mark("cut", "w1", 0)
				b.now += 1300
				b.event(0, evLost, 1, 10, 1, 0, "-")
				b.now += 5000
			})
		}},
		"a handler in a statement is not told that what is sent is lost": {"", func(b *book) {
			b.alone(func() {
				b.mark("cut", "w1", 0)
				b.marks[len(b.marks)-1].note = "what goes to the server" + noteLoss
				b.now += 5000
				b.mark("healed", "w1", 0)
			})
		}},
		"a handler in no statement is not told that what is sent is lost": {"I3-lease", func(b *book) {
			b.alone(func() {
				b.event(0, evWrite, 1, 10, 1, 200, "accepted")
				b.mark("cut", "w1", 0)
				b.marks[len(b.marks)-1].note = "what goes to the server" + noteLoss
				b.now += 5000
				b.mark("healed", "w1", 0)
			})
		}},
		"a later attempt has a lower token": {"I3-fence", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.tokens(10, 1, 201, "error", "retried")
			b.tokens(10, 2, 200, "ok", "succeeded")
			b.effect(1, 10, 2)
		}},
		"the sink takes a stale write": {"I3-fence", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.tokens(10, 1, 200, "error", "retried")
			b.tokens(10, 2, 201, "ok", "succeeded")
			b.effect(1, 10, 2)
			b.write("w1", 1, 10, 2, 201, true)
			b.write("w1", 1, 10, 1, 200, true)
		}},
		"the sink refuses a stale write": {"", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.tokens(10, 1, 200, "error", "retried")
			b.tokens(10, 2, 201, "ok", "succeeded")
			b.effect(1, 10, 2)
			b.write("w1", 1, 10, 2, 201, true)
			b.write("w1", 1, 10, 1, 200, false)
		}},
		"commits in another order": {"I4", func(b *book) {
			b.two()
			b.run(0, 10, 1, 1, "ok", "succeeded")
			b.run(0, 11, 1, 1, "ok", "succeeded")
			b.effect(1, 11, 1)
			b.effect(1, 10, 1)
		}},
		"starts in another order": {"I4", func(b *book) {
			b.two()
			b.run(0, 11, 1, 1, "ok", "succeeded")
			b.run(0, 10, 1, 1, "error", "buried")
			b.bury(1, 10, 1)
			b.effect(1, 11, 1)
		}},
		"another order of enqueues that overlapped": {"", func(b *book) {
			b.two()
			b.enqueues[len(b.enqueues)-2].back = (b.now + 3) * ms
			b.run(0, 11, 1, 1, "ok", "succeeded")
			b.run(0, 10, 1, 1, "ok", "succeeded")
			b.effect(1, 11, 1)
			b.effect(1, 10, 1)
		}},
		"a late commit is passed over for too long": {"I4", func(b *book) {
			b.two()
			b.enqueues[len(b.enqueues)-2].back = (b.now + 3) * ms
			b.now += 10_000
			b.run(0, 11, 1, 1, "ok", "succeeded")
			b.run(0, 10, 1, 1, "ok", "succeeded")
			b.effect(1, 11, 1)
			b.effect(1, 10, 1)
		}},
		"a late commit is passed over by one that came after it": {"I4", func(b *book) {
			b.passedOver()
		}},
		"ids against the order of enqueues": {"I4", func(b *book) {
			b.send(11, 11, 1, resOK)
			b.send(10, 10, 1, resOK)
			b.run(0, 10, 1, 1, "ok", "succeeded")
			b.run(0, 11, 1, 1, "ok", "succeeded")
			b.effect(1, 10, 1)
			b.effect(1, 11, 1)
		}},
		"a batch begins again": {"", func(b *book) {
			b.twoIn(3)
			b.event(0, evStart, 3, 10, 1, 10, "-")
			b.event(0, evEnd, 3, 10, 1, 0, "ok")
			b.event(0, evStart, 3, 11, 1, 11, "-")
			b.event(0, evEnd, 3, 11, 1, 0, "panic")
			b.event(0, evSettled, 3, 10, 1, 0, "returned")
			b.event(0, evSettled, 3, 11, 1, 0, "returned")
			b.run(1, 10, 3, 1, "ok", "succeeded")
			b.run(1, 11, 3, 1, "ok", "succeeded")
			b.effect(3, 10, 1)
			b.effect(3, 11, 1)
		}},
		"the chain is not that of the effects": {"I4", func(b *book) {
			b.chains[0] = chain{hash: []byte("somebody wrote to it")}
		}},
		"two effects": {"I5", func(b *book) { b.effect(0, 4, 1) }},
		"two jobs of one message": {"I5", func(b *book) {
			b.run(0, 12, 0, 1, "ok", "succeeded")
			b.events[len(b.events)-4].arg = 4
			b.effect(0, 12, 1)
			b.effects[len(b.effects)-1].msg = 4
		}},
		"an effect of an attempt that failed": {"I5", func(b *book) { b.effects[1].attempt = 1 }},
		"an effect of a dead letter": {"I5", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.run(0, 10, 1, 1, "ok", "buried")
			b.effect(1, 10, 1)
			b.bury(1, 10, 1)
		}},
		"a job runs again when it is done": {"I5", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.run(0, 10, 1, 1, "ok", "succeeded")
			b.effect(1, 10, 1)
			b.run(1, 10, 1, 2, "error", "retried")
		}},
		"a job is spawned by an attempt that was undone":              {"I5", func(b *book) { b.spawn("error", true) }},
		"a job is spawned by an attempt that was not undone":          {"", func(b *book) { b.spawn("ok", true) }},
		"a spawned job is not there":                                  {"I1", func(b *book) { b.spawn("ok", false) }},
		"a lost attempt is not counted":                               {"I6", func(b *book) { b.lostAfter(1500, 1) }},
		"a lost attempt is not counted, which a stale claim explains": {"", func(b *book) { b.lost(1) }},
		"a lost attempt is counted":                                   {"", func(b *book) { b.lost(2) }},
		"a lost attempt is counted twice":                             {"I6", func(b *book) { b.lost(6) }},
		"a lost attempt is not counted because the server lost it": {"", func(b *book) {
			b.mark(faultRestart, "", 0)
			b.marks[len(b.marks)-1].at += 4 * ms
			b.lost(1)
			b.mark("resumed", "", 0)
		}},
		"a failed attempt is not counted": {"I6", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.run(0, 10, 1, 1, "error", "retried")
			b.run(0, 10, 1, 1, "ok", "succeeded")
			b.effect(1, 10, 1)
		}},
		"a dead letter has more attempts than ran":                    {"I6", func(b *book) { b.dead[0].attempts, b.dead[0].failures = 2, 2 }},
		"a dead letter has no history":                                {"I6", func(b *book) { b.dead[0].failures = 0 }},
		"a poison job has three lives":                                {"", func(b *book) { b.poison(3) }},
		"a poison job has four lives, which one stale claim explains": {"", func(b *book) { b.poison(4) }},
		"a poison job has four lives, the last where a claim may have been lost before": {"", func(b *book) {
			b.mark(faultTerminate, "w6", 0)
			b.poison(4)
		}},
		"a poison job has five lives":      {"I6", func(b *book) { b.poison(5) }},
		"a frozen process holds something": {"I7", func(b *book) { b.mark("held", "w1", 1) }},
		"a killed process has sessions for long": {"I7", func(b *book) {
			b.mark(faultKill, "w3", 0)
			b.now += 16_000
			b.mark("gone", "w3", 0)
		}},
		"a killed process's job waits for long": {"I7", func(b *book) {
			b.send(10, 10, 1, resOK)
			b.event(2, evStart, 1, 10, 1, 10, "-")
			b.mark(faultKill, "w3", 0)
			b.now += 26_000
			b.run(0, 10, 1, 2, "ok", "succeeded")
			b.effect(1, 10, 2)
		}},
		"a session holds a group and does not work": {"I8", func(b *book) { b.locked(99) }},
		"a session holds a group and works": {"", func(b *book) {
			b.alone(func() { b.locked(71) })
		}},
		"a session holds a group and works another one": {"I8", func(b *book) {
			b.alone(func() { b.lockedAs(71, "plain/g2") })
		}},
		"jobs are left":                           {"I8", func(b *book) { b.end.Jobs = 1 }},
		"groups are locked at the end":            {"I8", func(b *book) { b.end.Locked = 1 }},
		"a session is left in its transaction":    {"I9", func(b *book) { b.end.Holding = 1 }},
		"a transaction is left prepared":          {"I9", func(b *book) { b.end.Prepared = 1 }},
		"sessions are left":                       {"I9", func(b *book) { b.end.Sessions = 1 }},
		"a worker ends by itself":                 {"I9", func(b *book) { b.mark("dead", "w1", 0) }},
		"a job's session listens":                 {"I9", func(b *book) { b.alone(func() { b.event(0, evAmiss, 1, 10, 1, 0, "listens to pgfifo") }) }},
		"an enqueue waits for the holder":         {"I10", func(b *book) { b.probe(2500) }},
		"an enqueue does not wait for the holder": {"", func(b *book) { b.probe(20) }},
		"a deadlock": {"I11", func(b *book) {
			b.serverErrors = append(b.serverErrors, serverError{"w1", "40P01", "ERROR: deadlock detected"})
		}},
		"an error on purpose": {"", func(b *book) {
			b.serverErrors = append(b.serverErrors, serverError{"w1", "22012", "ERROR: division by zero"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook()
			x.do(b)
			h := b.seal()
			got := brokenBy(h)
			if x.want == "" {
				require.Empty(t, check(h).breaches)
				return
			}
			require.Equal(t, []string{x.want}, got, "%+v", check(h).breaches)
		})
	}
}
