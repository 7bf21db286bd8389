package lease

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Who keeps a job open behind the head of a batch does not keep the lane for long: the batch is given back, and no
// attempt is counted.
func TestJobBehindTheHeadIsKeptOpen(t *testing.T) {
	const edit = "UPDATE pgfifo.jobs SET payload = 'newer' WHERE id = 2"
	const lock = "SELECT FROM pgfifo.jobs WHERE id = 2 FOR UPDATE"
	type row struct {
		open      string
		also      string // what somebody waits for who comes before the lane does
		used      bool
		untracked bool // track_activities is off in the lane's session
	}
	pgtest.OverAll(t, map[string]row{
		"edited":                    {open: edit},
		"edited, effects":           {open: edit, used: true},
		"deleted":                   {open: "DELETE FROM pgfifo.jobs WHERE id = 2"},
		"locked":                    {open: lock},
		"locked, somebody waits":    {open: lock, also: edit},
		"both are not there then":   {open: edit, also: "DELETE FROM pgfifo.jobs WHERE id = 2"},
		"edited, untracked":         {open: edit, untracked: true},
		"locked, untracked":         {open: lock, used: true, untracked: true},
		"somebody waits, untracked": {open: edit, also: edit, untracked: true},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Alter("lock_timeout = 0") // whatever the server's is
		s.Exec("CREATE TABLE effects (v text)")
		s.Enqueue(3, "a")
		d := s.dialer(Bounds{})
		if x.untracked {
			d.Pool.ConnConfig.RuntimeParams["track_activities"] = "off"
		}
		l := s.dial(d)
		h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
		require.Len(t, h.Rest, 2)
		if x.used {
			require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
		}
		second, first := s.Session(), s.Session() // they are closed in the other order
		first.Do("BEGIN; " + x.open)
		if x.also != "" {
			second.Start(x.also)
			s.Until(func() bool { return s.Blocked(second.PgConn().PID()) })
		}
		s.givesBack(l, h)
		first.Do("ROLLBACK")
		require.Empty(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"))
		require.False(t, s.lost("a"), "nobody has died")
	})
}

// Who has waited for that job may be the one who keeps it open next.
func TestJobBehindTheHeadIsKeptOpenAnew(t *testing.T) {
	const edit = "UPDATE pgfifo.jobs SET payload = payload || 'newer' WHERE id = 2"
	s := newStage(t)
	s.Alter("lock_timeout = 0")
	s.Enqueue(3, "a")
	l := s.lane()
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	second, first := s.Session(), s.Session()
	first.Do("BEGIN; " + edit)
	second.Do("BEGIN")
	edited := second.Start(edit)
	s.Until(func() bool { return s.Blocked(second.PgConn().PID()) })
	first.Go(func() {
		s.Until(func() bool { return s.Blocked(uint32(l.stream.pid)) })
		first.Do("COMMIT")
	})
	s.givesBack(l, h)
	require.NoError(t, <-edited)
	second.Do("ROLLBACK")
	require.False(t, s.lost("a"), "nobody has died")
}

// givesBack settles a batch that has to wait for somebody.
func (s *stage) givesBack(l *Lane, h *Hold) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), pgtest.Patient)
	defer cancel()
	_, settled, err := l.Step(ctx, append(succeed(h), behind(h)), nil)
	require.ErrorIs(s, err, ErrGivenBack)
	require.False(s, settled)
}

// Other waits of a batch are not ended: that of what a handler has left to the end of its transaction, say. Nor if
// track_activities is off.
func TestBatchWaitsForItsTrigger(t *testing.T) {
	pgtest.OverEach(t, []string{"on", "off"}, testBatchWaitsForItsTrigger)
}

func testBatchWaitsForItsTrigger(t *testing.T, tracked string) {
	s := newStage(t)
	s.Exec(`CREATE TABLE effects (v text); CREATE TABLE audit (n int); INSERT INTO audit VALUES (0);
		CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN UPDATE audit SET n = n + 1; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER audited AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION audited()`)
	s.Enqueue(3, "a")
	var looks atomic.Int32
	d := s.controller(func(cfg *pgxpool.Config) {
		cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			looks.Add(1)
			return true, nil
		}
	})
	d.Pool.ConnConfig.RuntimeParams["track_activities"] = tracked
	l := s.dial(d)
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
	other := s.Session()
	other.Do("BEGIN; UPDATE audit SET n = 10")
	ended := beside(func() error {
		_, _, err := l.Step(t.Context(), append(succeed(h), behind(h)), nil)
		return err
	})
	s.Until(func() bool { return looks.Load() > 3 || len(ended) > 0 }) // the third one's answer has come then
	other.Do("COMMIT")
	require.NoError(t, <-ended)
	require.Equal(t, 11, pgtest.One[int](s.DB, "SELECT n FROM audit"))
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
}

// controlled returns a lane whose Control pool is of that configuration.
func (s *stage) controlled(configure func(*pgxpool.Config)) *Lane {
	s.Helper()
	return s.dial(s.controller(configure))
}

// controller returns a dialer of such lanes.
func (s *stage) controller(configure func(*pgxpool.Config)) *Dialer {
	s.Helper()
	cfg := s.Pool.Config()
	configure(cfg)
	control, err := pgxpool.NewWithConfig(s.Context(), cfg)
	require.NoError(s, err)
	s.Cleanup(control.Close)
	d := s.dialer(Bounds{})
	d.Control = control
	return d
}

// Who looks whether a batch waits may lose his connection: he looks again.
func TestLookAtABatchFails(t *testing.T) {
	s := newStage(t)
	s.Alter("lock_timeout = 0")
	s.Enqueue(3, "a")
	var looks atomic.Int32
	l := s.controlled(func(cfg *pgxpool.Config) {
		cfg.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
			if looks.Add(1) == 1 {
				s.Exec("SELECT pg_terminate_backend($1, 10000)", conn.PgConn().PID())
			}
			return true, nil
		}
	})
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	other := s.Session()
	other.Do("BEGIN; UPDATE pgfifo.jobs SET payload = 'newer' WHERE id = 2")
	s.givesBack(l, h)
	require.Greater(t, looks.Load(), int32(1))
	require.True(t, l.Spoiled(), "the first cancel may yet come, for all that is known")
}

// If it is not known whether a cancel is on its way, the next jobs do not run on that session. They are given back, and
// a death of a job's last worker is counted all the same: of that job, and of no other.
func TestNoHandlerMeetsAStrayCancel(t *testing.T) {
	type row struct {
		died bool
		next *Request
	}
	pgtest.OverAll(t, map[string]row{
		"nobody has died":               {false, request("b")},
		"its worker has died":           {true, request("b")},
		"that of one of two":            {true, request("b", "c")},
		"that of one, one runs alone":   {true, request("b", "c", "alone")},
		"nobody of two has died":        {false, request("b", "c")},
		"nobody, and one of them alone": {false, request("b", "c", "alone")},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Enqueue(3, "a")
		s.Enqueue(1, "b", "c", "alone")
		s.Exec("UPDATE pgfifo.jobs SET attempts = 1 WHERE group_id = 'alone'")
		if x.died {
			s.dies("b")
		}
		var looks atomic.Int32
		second := make(chan struct{})
		l := s.controlled(func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
				n := looks.Add(1)
				if n > 2 { // what comes behind the batch
					s.Until(func() bool { return len(s.left("a")) == 0 })
					return true, nil
				}
				s.Exec("SELECT pg_terminate_backend($1, 10000)", conn.PgConn().PID())
				if n == 2 { // the first look's answer has come
					close(second)
				}
				return true, nil
			}
		})
		s.strays(l, x.next, func() { <-second })
		require.Equal(t, x.died, s.lost("b"))
		require.False(t, s.lost("b"), "once")
		require.False(t, s.lost("c"), "it has not begun")
		require.False(t, s.lost("alone"), "it has not begun")
	})
}

// Not if the cancel meets the end of the claim, either.
func TestStrayCancelMeetsTheClaim(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "b", "c", "d")
	s.dies("b")
	require.False(t, s.lost("c"), "given back")
	l := s.lane()
	_, got := s.together(l, "b", "c", "d")
	require.Equal(t, "b c d", got)
	_, err := l.Conn().Exec(t.Context(), nonsense) // as one that was cancelled
	require.Error(t, err)
	l.giveUp(t.Context())
	require.True(t, l.Closed())
	require.True(t, s.lost("b"))
	require.False(t, s.lost("c"), "it has not begun")
	require.False(t, s.lost("d"), "it has not begun")
}

// dies has a worker die with the head of a group.
func (s *stage) dies(id string) {
	s.Helper()
	worker := s.lane()
	s.claim(worker, id)
	s.Terminate(uint32(worker.stream.pid))
}

// strays has a lane settle the batch of group a, which waits until looked returns, and claim what is next. The claim is
// given back.
func (s *stage) strays(l *Lane, next *Request, looked func()) {
	s.Helper()
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	other := s.Session()
	other.Do("BEGIN; SELECT FROM pgfifo.jobs WHERE id = 2 FOR UPDATE")
	other.Go(func() {
		looked()
		other.Do("COMMIT")
	})
	require.Nil(s, s.step(l, append(succeed(h), behind(h)), next))
	require.True(s, l.Closed())
	require.Empty(s, s.left("a"), "the batch is done")
}

// left returns the ids of a group's jobs.
func (s *stage) left(id string) []int64 {
	s.Helper()
	return pgtest.Column[int64](s.DB, "SELECT id FROM pgfifo.jobs WHERE group_id = $1 ORDER BY id", id)
}

// A look that takes long keeps nothing that was claimed behind the batch: a pause may come meanwhile. It hides no death
// either, though it has the only connection of the Control pool.
func TestNoClaimWaitsForALook(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"died": true, "lives": false}, func(t *testing.T, died bool) {
		s := newStage(t)
		s.Enqueue(3, "a")
		s.Enqueue(1, "b")
		if died {
			s.dies("b")
		}
		looking, free := make(chan struct{}, 100), make(chan struct{})
		l := s.controlled(func(cfg *pgxpool.Config) {
			cfg.MaxConns = 1
			cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
				looking <- struct{}{}
				<-free
				return true, nil
			}
		})
		late := time.AfterFunc(pgtest.Patient, func() { close(free) })
		s.strays(l, request("b"), func() { <-looking })
		require.True(t, late.Stop(), "the claim has waited for the look")
		close(free)
		require.Equal(t, died, s.lost("b"))
	})
}

// A cancel that may yet come may meet the lane as it covers what it gives back: that hides no death either.
func TestStrayCancelMeetsTheCover(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a")
	s.Enqueue(1, "b")
	s.dies("b")
	looking, free := make(chan struct{}), make(chan struct{})
	var looks atomic.Int32
	l := s.controlled(func(cfg *pgxpool.Config) {
		cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			if looks.Add(1) == 1 {
				close(looking)
				<-free
			}
			return true, nil
		}
	})
	defer close(free)
	s.Exec(fmt.Sprintf(`CREATE FUNCTION stray() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
			IF pg_backend_pid() = %d THEN RAISE query_canceled; END IF;
			RETURN NEW;
		END$$;
		CREATE TRIGGER stray BEFORE INSERT ON pgfifo.attempt_marks FOR EACH ROW EXECUTE FUNCTION stray()`,
		l.pg().PID()))
	s.strays(l, request("b"), func() { <-looking })
	require.True(t, s.lost("b"))
}

// Sessions that act in another role than the one that has logged in are seen, and can be cancelled, all the same.
func TestBatchInARole(t *testing.T) {
	s := newStage(t)
	s.Alter("lock_timeout = 0")
	s.Enqueue(3, "a")
	role := "acting_" + s.Pool.Config().ConnConfig.Database
	s.Exec("CREATE ROLE " + role + "; GRANT USAGE ON SCHEMA pgfifo TO " + role +
		"; GRANT ALL ON ALL TABLES IN SCHEMA pgfifo TO " + role)
	t.Cleanup(func() {
		_, err := s.Pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		require.NoError(t, err)
	})
	l := s.controlled(func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["role"] = role })
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	other := s.Session()
	other.Do("BEGIN; UPDATE pgfifo.jobs SET payload = 'newer' WHERE id = 2")
	s.givesBack(l, h)
}

// end_wait.sql ends the wait for a row that has lasted a second, of the transaction and the statements that it names.
func TestEndWait(t *testing.T) {
	const own = "SELECT pg_current_xact_id()::text::bigint"
	const began = "SELECT max(query_start) FROM pg_stat_get_activity($1) WHERE wait_event_type = 'Lock'"
	const second = "SELECT clock_timestamp() >= $1::timestamptz + interval '1 s'"
	type row struct {
		lock, wants string
		named       string // the text that is named
		ends        bool
	}
	const wants = "UPDATE pgfifo.jobs SET payload = 'x' WHERE id = 1"
	pgtest.OverAll(t, map[string]row{
		"a row":             {"UPDATE pgfifo.jobs SET payload = 'y'", wants, wants, true},
		"another statement": {"UPDATE pgfifo.jobs SET payload = 'y'", wants, "SELECT 1", false},
		"a table":           {"LOCK TABLE pgfifo.jobs", wants, wants, false},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Enqueue(1, "a")
		holder, waiter := s.Session(), s.Session()
		var xid int64
		waiter.Do("BEGIN")
		require.NoError(t, waiter.QueryRow(t.Context(), own).Scan(&xid))
		holder.Do("BEGIN; " + x.lock)
		done := waiter.Start(x.wants)
		end := func(xid int64) bool {
			return pgtest.One[bool](s.DB, statement("end_wait"), xid, []string{x.named}, s.Schema.String())
		}
		var since *time.Time
		s.Until(func() bool {
			since = pgtest.One[*time.Time](s.DB, began, waiter.PgConn().PID())
			return since != nil
		})
		ended, passed := false, false
		for !passed {
			ended = end(xid)
			passed = pgtest.One[bool](s.DB, second, since)
			require.False(t, ended && !passed, "it has not waited for a second")
		}
		if !ended {
			require.False(t, end(xid+1000), "of another transaction")
			ended = end(xid)
		}
		require.Equal(t, x.ends, ended)
		if !x.ends {
			holder.Do("COMMIT")
		}
		if err := <-done; x.ends {
			require.Equal(t, statementCancelled, sqlState(err))
		} else {
			require.NoError(t, err)
		}
	})
}
