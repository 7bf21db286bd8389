package lease

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// uncountable has the server refuse claims of group b when they have locked what comes before it: its job has had as
// many attempts as there are numbers.
const uncountable = "INSERT INTO pgfifo.attempt_marks SELECT queue, group_id, id, 2 FROM pgfifo.jobs " +
	"WHERE group_id = 'b'; UPDATE pgfifo.jobs SET attempts = 2147483647 WHERE group_id = 'b'"

// A claim that the server refuses is no death, however far it has come, and hides none unless it had locked the head.
func TestRefusedClaimAndEvidence(t *testing.T) {
	without := func(name string) [2]string {
		return [2]string{"ALTER TABLE pgfifo." + name + " RENAME TO away", "ALTER TABLE pgfifo.away RENAME TO " + name}
	}
	type row struct {
		request *Request
		refused [2]string // SQL that makes the server refuse, and SQL that undoes it
		hides   bool      // it has the head: nobody knows any more who had it before
	}
	pgtest.OverAll(t, map[string]row{
		"before the group is locked": {request("a"), without("queue_groups"), false},
		"before the head is locked":  {request("a"), without("pauses"), false},
		"in a slot":                  {&Request{Key: group("a"), Slot: true}, without("pauses"), false},
		"of a batch":                 {&Request{Key: group("a"), Jobs: 2}, without("pauses"), false},
		"of many":                    {request("a", "b"), without("pauses"), false},
		"behind one of many": {request("a", "b"), [2]string{
			uncountable, "UPDATE pgfifo.jobs SET attempts = 0 WHERE group_id = 'b'",
		}, true},
	}, func(t *testing.T, x row) {
		pgtest.OverEach(t, []string{"died", "lives"}, func(t *testing.T, worker string) {
			s := newStage(t)
			s.Enqueue(2, "a", "b")
			last := s.lane()
			s.claim(last, "a")
			if worker == "died" {
				s.Terminate(last.pg().PID())
			} else {
				s.end(last)
				s.Session().Do("BEGIN; SELECT FROM pgfifo.jobs FOR UPDATE; ROLLBACK") // an operator's look
			}
			if x.request.Slot {
				s.limit(1)
			}
			l := s.lane()
			s.Exec(x.refused[0])
			_, begun, err := l.Step(t.Context(), nil, x.request)
			require.True(t, begun && Blames(err), err)
			s.Exec(x.refused[1])
			require.Equal(t, worker == "died" && !x.hides, s.lost("a"))
			require.False(t, s.lost("a"), "once")
			require.False(t, s.lost("b"))
		})
	})
}

// Nor is a claim a death, or hides one, that was sent with a completion: of the same group, or one that has found no
// job.
func TestRefusedClaimBehindACompletion(t *testing.T) {
	t.Run("the same group again", func(t *testing.T) {
		s, l, h := held(t, 2)
		s.Enqueue(1, "b")
		s.Exec(uncountable)
		_, settled, err := l.Step(t.Context(), succeed(h), request("a", "b"))
		require.True(t, settled && Blames(err), err)
		require.False(t, s.lost("a"))
	})
	pgtest.OverEach(t, []string{"died", "lives"}, func(t *testing.T, worker string) {
		s, l, h := held(t, 1)
		s.Enqueue(1, "b")
		last := s.lane()
		s.claim(last, "b")
		if worker == "died" {
			s.Terminate(last.pg().PID())
		} else {
			s.end(last)
		}
		h.ID = 99
		require.ErrorIs(t, s.unsettled(l, succeed(h), request("b")), ErrNotHeld)
		require.False(t, l.Closed() || l.Spoiled(), "it can go on")
		require.Equal(t, worker == "died", s.lost("b"))
		require.False(t, s.lost("b"), "once")
	})
}

// A group that another worker has claimed since is left to him: his death is counted. Also if the claim has told of no
// head.
func TestRefusedClaimAndTheNextHolder(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"behind the head":           uncountable,
		"before the head is locked": "ALTER TABLE pgfifo.pauses RENAME TO away",
	}, func(t *testing.T, refuse string) {
		s := newStage(t)
		l := s.refusedLate(s.lane(), refuse)
		s.Exec("ALTER TABLE IF EXISTS pgfifo.away RENAME TO pauses")
		dies := s.lane()
		s.claim(dies, "a")
		s.Terminate(dies.pg().PID())
		l.coverAll(t.Context())
		require.True(t, s.lost("a"))
	})
}

// refusedLate has the server refuse a lane's claim of groups a and b by this SQL. The lane's session is gone, and the
// lane has not looked at what that would hide.
func (s *stage) refusedLate(l *Lane, refuse string) *Lane {
	s.Helper()
	s.Enqueue(1, "a", "b")
	s.Exec(refuse)
	control := l.control
	l.control = nil
	_, _, err := l.Step(s.Context(), nil, request("a", "b"))
	require.True(s, Blames(err), err)
	require.True(s, l.Closed())
	l.control = control
	return l
}

// A lane needs no other connection to cover its claim: who uses all of the Control pool costs nobody an attempt.
func TestRefusedClaimBesideABusyPool(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.Exec(uncountable)
	d := s.controller(func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	l := s.dial(d)
	conn, err := d.Control.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, _, err = l.Step(t.Context(), nil, request("a", "b"))
	require.True(t, Blames(err), err)
	require.False(t, s.lost("a"))
}

// A watched connection has somebody see what is written. He may swallow it.
type watched struct {
	net.Conn
	swallows func(conn net.Conn, p []byte) bool
}

func (w *watched) Write(p []byte) (int, error) {
	if w.swallows(w.Conn, p) {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// If a lane's session ends, or says nothing more, while it covers a claim, one of the Control pool does so.
func TestLostWhileItCovers(t *testing.T) {
	type row struct {
		before string // this is what is written
		nth    int32  // so often
		ends   bool   // or else it says nothing
	}
	pgtest.OverAll(t, map[string]row{
		"ends, with the group locked": {ending, 2, true}, // behind that of the claim itself
		"says nothing":                {"set_config('idle_in_transaction_session_timeout', $3", 1, false},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Enqueue(1, "a", "b")
		s.Exec(uncountable)
		var seen atomic.Int32
		d := s.controller(func(*pgxpool.Config) {})
		d.Bounds = Bounds{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 4 * time.Second}
		d.Pool.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &watched{conn, func(conn net.Conn, p []byte) bool {
				if bytes.Contains(p, []byte(x.before)) {
					seen.Add(1)
				}
				if seen.Load() >= x.nth && x.ends {
					_ = conn.Close()
				}
				return seen.Load() >= x.nth
			}}, err
		}
		l := s.dial(d)
		seen.Store(0)
		_, _, err := l.Step(t.Context(), nil, request("a", "b"))
		require.True(t, Blames(err), err)
		require.GreaterOrEqual(t, seen.Load(), x.nth)
		require.False(t, s.lost("a"), "it has not begun")
	})
}

// What the server refuses to tell of a head's last worker charges nobody, and hides no death.
func TestRefusedQuestionOfALane(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"died": true, "lives": false}, func(t *testing.T, died bool) {
		s := newStage(t)
		s.Enqueue(1, "a")
		if died {
			s.dies("a")
		} else {
			require.False(t, s.lost("a"), "it is given back")
		}
		l := s.lane()
		h := s.claim(l, "a")
		_, err := l.Conn().Exec(t.Context(), nonsense) // the transaction has failed
		require.Error(t, err)
		lost, err := l.Lost(t.Context())
		require.True(t, Refused(err), err)
		require.Equal(t, []*Held{&h.Held}, lost, "it is not known")
		require.True(t, l.Closed())
		require.Equal(t, died, s.lost("a"))
	})
}

// Nor is the claim of a session a death to a lane.
func TestRefusedClaimOfASession(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.Exec(uncountable)
	b, err := s.keeper().Borrow(t.Context())
	require.NoError(t, err)
	_, _, err = b.Step(t.Context(), nil, request("a", "b"))
	require.True(t, Blames(err), err)
	require.False(t, s.lost("a"))
}

// A session of the Control pool that has ended meanwhile costs nobody an attempt.
func TestRefusedClaimAndABrokenPool(t *testing.T) {
	s := newStage(t)
	cut := cutting("queue_groups")
	l := s.refusedLate(s.controlled(through(cut.Conn)), uncountable)
	l.coverAll(t.Context())
	require.True(t, cut.Made.Load())
	require.False(t, s.lost("a"))
}

// Who uses all of the Control pool does not keep a lane whose session is gone for as long as a silent server would.
func TestRefusedClaimAndABusyPool(t *testing.T) {
	s := newStage(t)
	d := s.controller(func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	d.Bounds.Silence = 10 * pgtest.Patient
	l := s.refusedLate(s.dial(d), uncountable)
	conn, err := d.Control.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patient)
	defer cancel()
	l.coverAll(ctx)
	require.NoError(t, ctx.Err())
}
