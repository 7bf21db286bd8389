package fifo_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// One line says that a session was lost, and one that an attempt was lost with it: that of whoever counts it.
func TestLostSessionIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]bool{"a job runs": true, "none runs": false} {
		t.Run(name, func(t *testing.T) {
			log := &logFile{}
			b := bySession.on(newBed(t, log.set))
			b.ledger.overlaps = true
			h := newBlocking()
			b.send("g", nil)
			r := b.run(b.worker(h.handle))
			receive(t, h.started, "the job")
			b.listening()
			keeper := b.oneKeeper()
			if !runs {
				close(h.release)
				b.drained()
			}
			b.exec("SELECT pg_terminate_backend($1)", keeper)
			if runs {
				receive(t, h.started, "the job again")
				close(h.release)
			}
			for i := range 20 { // of lanes that have not heard of it
				b.send(fmt.Sprint("g", i), nil)
			}
			b.drained()
			require.NoError(t, r.stop())
			require.Len(t, log.lines("level=WARN msg=\"pgfifo: the session that holds groups is lost"), 1)
			require.Len(t, log.lines("terminating connection"), 1)
			told := 1
			if runs {
				require.Len(t, log.lines("level=WARN msg=\"pgfifo: attempt failed\" queue=q group=g "), 1)
				told++
			}
			require.Len(t, log.lines("level=WARN"), told)
		})
	}
}
