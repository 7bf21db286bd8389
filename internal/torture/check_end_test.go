package torture

import (
	"testing"
)

// refused has the server's log tell of an error.
func (b *book) refused(state, text string) {
	b.serverErrors = append(b.serverErrors, serverError{who: "w1", state: state, text: text})
}

// What faults hit, who holds what, and how all ends: I7 to I11.
func TestBrokenEndHistories(t *testing.T) {
	t.Parallel()
	judge(t, map[string]flaw{
		"a frozen process holds something": {"I7", func(b *book) { b.mark("held", "w1", 1) }},
		"a killed process has sessions for long that was cut off while it dialed": {"", func(b *book) {
			b.killedWhileCut(500)
		}},
		"a killed process has sessions for long that was cut off later": {"I7", func(b *book) {
			b.killedWhileCut(5000)
		}},
		"a killed process has sessions for long": {"I7", func(b *book) {
			b.mark(faultKill, "w3", 0).later(16_000).mark("gone", "w3", 0)
		}},
		"a killed process's job waits for long": {"I7", func(b *book) {
			b.send(10, 10, 1, resOK).starts(2, 10, 1, 1).mark(faultKill, "w3", 0).later(26_000).done(0, 10, 1, 2)
		}},
		"a killed process's job waits for the server": {"", func(b *book) {
			b.send(10, 10, 1, resOK).starts(2, 10, 1, 1).mark(faultKill, "w3", 0)
			b.mark(faultRestart, "", 0).later(26_000).mark("resumed", "", 0).done(0, 10, 1, 2)
		}},
		"a session holds a group and does not work": {"I8", func(b *book) { b.locked(99) }},
		"a session holds a group, and the last look at it was long on its way": {"", func(b *book) {
			b.locked(99)
			for i := range b.samples {
				b.samples[i].asked -= 2000 * ms
			}
		}},
		"a session holds a group while the server is slow": {"", func(b *book) {
			b.locked(99).noted(markSlow, "", "3s")
		}},
		"a session holds a group, and the server was slow before": {"I8", func(b *book) {
			b.noted(markSlow, "", "3s").locked(99)
		}},
		"a session holds a group and works": {"", func(b *book) { b.alone(func() { b.locked(71) }) }},
		"a session holds a group and works another one": {"I8", func(b *book) {
			b.alone(func() { b.lockedAs(71, "plain/g2") })
		}},
		"a group stays locked after a slow job": {"I8", func(b *book) {
			b.running().locked(71).comes(0, 10, 1, 1, "ok", "succeeded").locked(71)
		}},
		"jobs are left":                        {"I8", func(b *book) { b.end.Jobs = 1 }},
		"groups are locked at the end":         {"I8", func(b *book) { b.end.Locked = 1 }},
		"a session is left in its transaction": {"I9", func(b *book) { b.end.Holding = 1 }},
		"a transaction is left prepared":       {"I9", func(b *book) { b.end.Prepared = 1 }},
		"sessions are left":                    {"I9", func(b *book) { b.end.Sessions = 1 }},
		"a worker ends by itself":              {"I9", func(b *book) { b.mark("dead", "w1", 0) }},
		"a job's session listens": {"I9", func(b *book) {
			b.alone(func() { b.event(0, evAmiss, 1, 10, 1, 0, "listens to pgfifo") })
		}},
		"an enqueue waits for the holder":         {"I10", func(b *book) { b.probe(2500) }},
		"an enqueue does not wait for the holder": {"", func(b *book) { b.probe(20) }},
		"a deadlock":          {"I11", func(b *book) { b.refused("40P01", "ERROR: deadlock detected") }},
		"an error on purpose": {"", func(b *book) { b.refused("22012", "ERROR: division by zero") }},
		"a statement runs into a timeout of the server": {"I11", func(b *book) {
			b.refused("57014", "canceling statement due to statement timeout")
		}},
		"a settlement of several groups takes too long": {"", func(b *book) {
			b.refused("57014", "canceling statement due to statement timeout in: -- Ends jobs that succeeded, "+
				"of groups that a session has, and lets")
		}},
		"a COMMIT fails because there is no room for its notice": {"I10", func(b *book) {
			b.send(10, 0, 1, resFailed)
			b.enqueues[len(b.enqueues)-1].why = "ERROR: too many notifications in the NOTIFY queue (SQLSTATE 54000)"
		}},
		"a transaction cannot be prepared for its notice": {"I10", func(b *book) {
			b.send(10, 0, 1, resFailed)
			b.enqueues[len(b.enqueues)-1].why = "ERROR: cannot PREPARE a transaction that has executed NOTIFY " +
				"(SQLSTATE 0A000)"
		}},
		"a handler that does not end is never told":            {"I7", func(b *book) { b.stubborn(0, 8000) }},
		"a handler that does not end keeps its group for long": {"I7", func(b *book) { b.stubborn(800, 8000) }},
		"a handler that does not end is given up":              {"", func(b *book) { b.stubborn(800, 1600) }},
	})
}
