package lease

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// freezing is a connection on which one statement, and all behind it, is never sent.
type freezing struct {
	net.Conn
	before []byte
	frozen chan struct{} // closed when it has come to that
	done   <-chan struct{}
}

func (f *freezing) Write(b []byte) (int, error) {
	if bytes.Contains(b, f.before) {
		close(f.frozen)
		<-f.done
		return 0, net.ErrClosed
	}
	return f.Conn.Write(b)
}

// A worker that freezes while it records what became of a job, with the group's row locked, does not keep the group for
// longer than a lane would, and the attempt is counted.
func TestFrozenRecordLetsGo(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	cfg, frozen := s.Pool.Config(), make(chan struct{})
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &freezing{conn, []byte("SET attempts = attempts + 1"), frozen, t.Context().Done()}, err
	}
	control, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(control.Close)
	d := s.dialer(Bounds{
		Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3500 * time.Millisecond,
	})
	d.Control = control
	l := s.dial(d)
	h := s.claim(l, "a")
	calls := retryIn(h, 0)
	l.kill()
	recorded := beside(func() error { return l.Record(context.WithoutCancel(t.Context()), &h.Held, calls...) })
	<-frozen
	other := s.lane()
	require.True(t, s.misses(other, "a"))
	s.Until(func() bool {
		free := s.step(other, nil, &Request{Key: group("a")})
		if free == nil {
			s.end(other)
		}
		return free != nil
	})
	require.Len(t, s.found(other), 1)
	t.Cleanup(func() { require.Error(t, <-recorded) })
}

// A worker that comes too late to record an attempt, because another one has counted it, leaves no evidence of a crash.
func TestLateRecordIsNoEvidence(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	lost, finder := s.lane(), s.lane()
	h := s.claim(lost, "a")
	late := retryIn(h, 0)
	lost.kill()
	s.Until(func() bool { return !s.misses(finder, "a") })
	s.end(finder, retryIn(s.claim(finder, "a"), 0)...)

	require.ErrorIs(t, lost.Record(t.Context(), &h.Held, late...), ErrNotHeld)
	next := s.lane()
	require.Equal(t, 1, s.claim(next, "a").Attempts, "the finder's")
	require.Empty(t, s.found(next))
}

// A worker that comes to record an attempt when another one has claimed the group since and has died leaves the
// evidence of that death, whether it counts a failure or gives the job back.
func TestLateRecordLeavesEvidence(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*Hold) []Call{
		"failed":     func(h *Hold) []Call { return retryIn(h, 0) },
		"given back": func(*Hold) []Call { return nil },
	}, func(t *testing.T, late func(*Hold) []Call) {
		s := newStage(t)
		s.Enqueue(1, "a")
		lost, dies := s.lane(), s.lane()
		h := s.claim(lost, "a")
		lost.kill()
		s.Until(func() bool { return !s.misses(dies, "a") })
		s.claim(dies, "a")
		require.ErrorIs(t, lost.Record(t.Context(), &h.Held, late(h)...), ErrNotHeld, "it is held")
		s.Terminate(dies.pg().PID())
		require.ErrorIs(t, lost.Record(t.Context(), &h.Held, late(h)...), ErrNotHeld, "its holder has died")
		next := s.lane()
		require.Zero(t, s.claim(next, "a").Attempts)
		require.Len(t, s.found(next), 1)
	})
}

// If the server refuses to record the failure of a job behind the head, that job is charged, and not the head, however
// soon another worker claims the group, and also if only COMMIT refuses.
func TestRefusedRecordChargesTheJob(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"at once": "ALTER TABLE pgfifo.jobs ADD CHECK (id <> 2 OR attempts = 0) NOT VALID",
		"in the end": "CREATE CONSTRAINT TRIGGER no AFTER UPDATE ON pgfifo.jobs DEFERRABLE INITIALLY DEFERRED " +
			"FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION pgfifo_test_refuse()",
	}, func(t *testing.T, refuses string) {
		s := newStage(t)
		s.Enqueue(2, "a")
		s.Exec("CREATE FUNCTION pgfifo_test_refuse() RETURNS trigger LANGUAGE plpgsql AS " +
			"'BEGIN RAISE check_violation; END'")
		lost := s.lane()
		h := s.step(lost, nil, &Request{Key: group("a"), Jobs: 2})
		lost.kill()
		s.Exec(refuses)
		calls := retryIn(&Hold{Held: h.Rest[0]}, 0)
		calls[0].Counts = true
		require.True(t, Refused(lost.Record(t.Context(), &h.Held, calls...)))
		next := s.lane()
		head := s.step(next, nil, &Request{Key: group("a"), Jobs: 2})
		require.Empty(t, s.found(next))
		require.Empty(t, head.Rest, "the other runs alone")
		s.end(next, succeed(head)...)
		require.True(t, s.lost("a"))
	})
}
