package lease

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
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
// longer than a lane would, and the attempt is counted, however far it has come.
func TestFrozenRecordLetsGo(t *testing.T) {
	pgtest.OverEach(t, []string{"SET attempts = attempts + 1", ending}, func(t *testing.T, before string) {
		s := newStage(t)
		s.Enqueue(1, "a")
		frozen := make(chan struct{})
		d := s.controller(through(func(conn net.Conn) net.Conn {
			return &freezing{conn, []byte(before), frozen, t.Context().Done()}
		}))
		d.Bounds = Bounds{
			Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3500 * time.Millisecond,
		}
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
	})
}

// ending is what ends a transaction of the Control pool, as it is sent.
const ending = commitSQL + "\x00"

// through has a pool's connections be of that kind.
func through(of func(net.Conn) net.Conn) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return of(conn), err
		}
	}
}

// cutting returns a Cut that is armed.
func cutting(before string) *netfault.Cut {
	cut := &netfault.Cut{Before: before}
	cut.Armed.Store(true)
	return cut
}

// If the session of the Control pool ends before anything is recorded, it is recorded in another one.
func TestRecordInAnotherSession(t *testing.T) {
	pgtest.OverEach(t, []string{"a group at a time", "several of a group"}, func(t *testing.T, lease string) {
		s := newStage(t)
		s.Enqueue(1, "a")
		cut := cutting(ending)
		l := s.controlled(through(cut.Conn))
		var h *Hold
		if lease == "several of a group" {
			s.groupLimit(2, "a")
			marks := s.lane()
			h = s.groupSlot(l, nil, "a")
			require.NoError(t, marks.mark(t.Context(), []*Held{&h.Held}))
		} else {
			h = s.claim(l, "a")
		}
		l.kill()
		require.NoError(t, l.Record(t.Context(), &h.Held, retryIn(h, 0)...))
		require.True(t, cut.Made.Load())
		require.Equal(t, 1, pgtest.One[int](s.DB, "SELECT attempts FROM pgfifo.jobs"))
	})
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

// A record that waits for the end of the lost session has no transaction id yet. So it does not lock the head when
// somebody else gets the group first: that one would not find that an attempt was lost.
func TestRecordThatWaitsLocksNothing(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	h := s.claim(s.lane(), "a")
	for _, name := range []string{"relock", "relock_group_slot"} {
		tx := s.begin()
		args := []any{queue, "a", "30000", []string{strconv.FormatInt(h.Seen.XID, 10)}}
		if name == "relock_group_slot" {
			args = append(args, h.ID)
		}
		tag, err := tx.Exec(t.Context(), s.Schema.Qualify(statement(name)), args...)
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected(), name)
		var id *string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned()::text").Scan(&id))
		require.Nil(t, id, name)
	}
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

// Somebody has the head locked by now: he is not waited for as long as the time lasts, and the attempt is counted.
func TestRecordOfALockedHead(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	l := s.dial(s.dialer(Bounds{Silence: 2 * time.Second}))
	h := s.claim(l, "a")
	calls := retryIn(h, 0)
	calls[0].Counts = true
	pid := l.stream.pid
	l.kill()
	s.Until(func() bool {
		return pgtest.One[int](s.DB, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
	})
	other := s.Session()
	other.Do("BEGIN; SELECT FROM pgfifo.jobs FOR UPDATE")
	require.True(t, Refused(l.Record(t.Context(), &h.Held, calls...)))
	other.Do("COMMIT")
	require.True(t, s.lost("a"))
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
		var taken atomic.Int32
		lost := s.controlled(func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
				taken.Add(1)
				return true, nil
			}
		})
		h := s.step(lost, nil, &Request{Key: group("a"), Jobs: 2})
		lost.kill()
		s.Exec(refuses)
		calls := retryIn(&Hold{Held: h.Rest[0]}, 0)
		calls[0].Counts = true
		taken.Store(0)
		require.True(t, Refused(lost.Record(t.Context(), &h.Held, calls...)))
		require.EqualValues(t, 1, taken.Load(), "nobody can claim between two transactions")
		next := s.lane()
		head := s.step(next, nil, &Request{Key: group("a"), Jobs: 2})
		require.Empty(t, s.found(next))
		require.Empty(t, head.Rest, "the other runs alone")
		s.end(next, succeed(head)...)
		require.True(t, s.lost("a"))
	})
}

// An attempt is counted if the server refuses to record its failure, and to leave it to the next claim by a mark.
func TestRefusedCharge(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"a group at a time": false, "several of a group": true},
		func(t *testing.T, several bool) {
			s := newStage(t)
			s.Enqueue(1, "a")
			one := &Request{Key: group("a")}
			if several {
				s.groupLimit(2, "a")
				one.Slot, one.GroupSlot = true, true
			}
			l, next := s.lane(), s.lane()
			h := s.step(l, nil, one)
			if several {
				require.NoError(t, s.lane().mark(t.Context(), []*Held{&h.Held}))
			}
			calls := retryIn(h, 0)
			calls[0].Counts = true
			l.kill()
			s.Exec("ALTER TABLE pgfifo.jobs ADD CONSTRAINT no CHECK (attempts = 0) NOT VALID; " + pgtest.FullDisk)
			require.True(t, Refused(l.Record(t.Context(), &h.Held, calls...)))
			s.Exec(pgtest.Room + "; ALTER TABLE pgfifo.jobs DROP CONSTRAINT no")
			s.Until(func() bool { // the session that was refused last has ended
				h = s.step(next, nil, one)
				return h != nil
			})
			require.Zero(t, h.Attempts)
			require.Len(t, s.found(next), 1)
		})
}

// If that is a job behind the head, nobody is charged: the head has not failed.
func TestRefusedChargeBehindTheHead(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a")
	l := s.lane()
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 2})
	l.kill()
	s.Exec("ALTER TABLE pgfifo.jobs ADD CONSTRAINT no CHECK (attempts = 0) NOT VALID; " + pgtest.FullDisk)
	calls := retryIn(&Hold{Held: h.Rest[0]}, 0)
	calls[0].Counts = true
	require.True(t, Refused(l.Record(t.Context(), &h.Held, calls...)))
	s.Exec(pgtest.Room + "; ALTER TABLE pgfifo.jobs DROP CONSTRAINT no")
	require.False(t, s.lost("a"))
}
