package lease

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// hasty is a session whose server waits for four and a half seconds only.
var hasty = Bounds{
	Heartbeat: 100 * time.Millisecond, Silence: 2 * time.Second, ServerSilence: 4500 * time.Millisecond,
}

// beside runs a handler and heartbeats beside it, as a worker does, and returns what ended the handler's context.
func (s *stage) beside(l *Lane, handler func(ctx context.Context)) (cause, held error) {
	s.Helper()
	ctx, lose := context.WithCancelCause(s.Context())
	defer lose(nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	held = l.Lend(s.Context(), func() {
		go func() {
			defer close(stopped)
			tick := time.NewTicker(l.bounds.Heartbeat / 2)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if err := l.Beat(context.WithoutCancel(ctx)); err != nil {
					lose(err)
					return
				}
			}
		}()
		handler(ctx)
		close(stop)
		<-stopped
		cause = context.Cause(ctx)
	})
	return cause, held
}

// over waits until the server has ended a session that was silent for as long.
func (s *stage) over(bounds Bounds) {
	s.Helper()
	forsaken := s.dial(s.dialer(bounds))
	s.claim(forsaken, "silent")
	conn := forsaken.stream.Conn
	require.NoError(s, conn.SetReadDeadline(time.Now().Add(pgtest.Patient)))
	_, _ = conn.Read(make([]byte, 1)) // the server's last word
	s.gone(forsaken.pg().PID())
}

// Whatever a handler does with the connection for longer than the server waits for a silent worker, it keeps its group
// if the server has something to do, or if a heartbeat can be sent.
func TestBeatKeepsWhatIsUsed(t *testing.T) {
	const slow = "SELECT pg_sleep(6)"
	rowsOpen := func(sql string, size, rows int) func(*stage, context.Context, pgx.Tx, *Hold) error {
		return func(s *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			result, err := tx.Query(ctx, sql)
			if err != nil {
				return err
			}
			defer result.Close()
			result.Next()
			s.over(hasty)
			n := 1
			for result.Next() {
				require.Len(s, result.RawValues()[0], size)
				n++
			}
			require.Equal(s, rows, n)
			return result.Err()
		}
	}
	pgtest.OverAll(t, map[string]func(s *stage, ctx context.Context, tx pgx.Tx, h *Hold) error{
		"nothing": func(s *stage, _ context.Context, _ pgx.Tx, _ *Hold) error {
			s.over(hasty)
			return nil
		},
		"a long statement": func(_ *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			_, err := tx.Exec(ctx, slow)
			return err
		},
		"a long statement by bun": func(s *stage, ctx context.Context, _ pgx.Tx, h *Hold) error {
			_, err := s.bunTx(h).ExecContext(ctx, slow)
			return err
		},
		"a long statement in a batch": func(_ *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue(slow)
			return tx.SendBatch(ctx, b).Close()
		},
		"a long statement, whose results are fetched late": func(
			s *stage, ctx context.Context, tx pgx.Tx, _ *Hold,
		) error {
			p := tx.Conn().PgConn().StartPipeline(ctx)
			p.SendQueryParams(slow, nil, nil, nil, nil)
			p.SendFlushRequest()
			if err := p.Flush(); err != nil {
				return err
			}
			s.over(hasty)
			if err := p.Sync(); err != nil {
				return err
			}
			return p.Close()
		},
		"rows open": rowsOpen("SELECT 'x' FROM generate_series(1, 8)", 1, 8),
		"rows open, which the socket holds": rowsOpen(
			"SELECT repeat('x', 1000) FROM generate_series(1, 500)", 1000, 500),
		"rows of database/sql open": func(s *stage, ctx context.Context, _ pgx.Tx, h *Hold) error {
			rows, err := s.bunTx(h).QueryContext(ctx, "SELECT generate_series(1, 8)")
			if err != nil {
				return err
			}
			defer rows.Close() //nolint:errcheck // read to its end below
			s.over(hasty)
			n := 0
			for rows.Next() {
				n++
			}
			require.Equal(s, 8, n)
			return rows.Err()
		},
		"results of a batch open": func(s *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue("SELECT 2")
			results := tx.SendBatch(ctx, b)
			s.over(hasty)
			var one, two int
			require.NoError(s, results.QueryRow().Scan(&one))
			require.NoError(s, results.QueryRow().Scan(&two))
			require.Equal(s, []int{1, 2}, []int{one, two})
			return results.Close()
		},
		"a large object open": func(s *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			large := tx.LargeObjects()
			oid, err := large.Create(ctx, 0)
			require.NoError(s, err)
			object, err := large.Open(ctx, oid, pgx.LargeObjectModeWrite)
			require.NoError(s, err)
			s.over(hasty)
			_, err = object.Write([]byte("late"))
			return err
		},
		"COPY FROM a slow source": func(s *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			n := 0
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"v"},
				pgx.CopyFromFunc(func() ([]any, error) {
					if n++; n == 2 {
						s.over(hasty)
					}
					if n == 3 {
						return nil, nil
					}
					return []any{"copied"}, nil
				}))
			return err
		},
		"COPY TO on the raw connection": func(_ *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			_, err := tx.Conn().PgConn().CopyTo(ctx, io.Discard,
				"COPY (SELECT pg_sleep(0.05) FROM generate_series(1, 100)) TO STDOUT")
			return err
		},
		"statements on the raw connection": func(_ *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			for begun := time.Now(); time.Since(begun) < 2*time.Second; {
				if _, err := tx.Conn().PgConn().Exec(ctx, "SELECT pg_sleep(0.005)").ReadAll(); err != nil {
					return err
				}
			}
			return nil
		},
		"a wait for what never comes": func(s *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			ended := beside(func() error {
				_, err := tx.Conn().WaitForNotification(ctx)
				return err
			})
			s.over(hasty)
			stop()
			require.ErrorIs(s, <-ended, context.Canceled)
			return nil
		},
		"many results, read slowly": func(s *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			// What a proxy between the two keeps of it must be read in less than Silence when the server has sent all.
			rows, err := tx.Query(ctx, "SELECT repeat('x', 400000) FROM generate_series(1, 250)")
			if err != nil {
				return err
			}
			defer rows.Close()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			n := 0
			for rows.Next() {
				<-tick.C
				n++
			}
			require.Equal(s, 250, n, "%v", rows.Err())
			return rows.Err()
		},
	}, func(t *testing.T, use func(s *stage, ctx context.Context, tx pgx.Tx, h *Hold) error) {
		s := newStage(t)
		s.Enqueue(1, "a", "silent")
		s.Exec("CREATE TABLE effects (v text)")
		l := s.dial(s.dialer(hasty))
		h := s.claim(l, "a")
		var err error
		cause, held := s.beside(l, func(ctx context.Context) {
			tx := s.pgxTx(h)
			s.write(tx, "kept")
			err = use(s, ctx, tx, h)
		})
		require.NoError(t, cause)
		require.NoError(t, err)
		require.NoError(t, held)
		s.end(l, succeed(h)...)
		require.Contains(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"), "kept")
	})
}

// A handler that keeps every heartbeat from being sent is told before the server can free its group.
func TestBeatGivesUpFirst(t *testing.T) {
	// More than is read ahead, less than sockets hold.
	const much = "SELECT repeat('x', 1000) FROM generate_series(1, 3000)"
	const more = "SELECT repeat('x', 1000) FROM generate_series(1, 200000)"
	const pooled = "rows unread, in a session that a pooler shares"
	unread := func(sql string) func(*stage, context.Context, pgx.Tx, *Hold) error {
		return func(_ *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			rows, err := tx.Query(ctx, sql)
			if err == nil {
				defer rows.Close()
				rows.Next()
				<-ctx.Done()
			}
			return err
		}
	}
	pgtest.OverNamed(t, map[string]func(s *stage, ctx context.Context, tx pgx.Tx, h *Hold) error{
		"rows unread":                    unread(much),
		pooled:                           unread(much),
		"more of them than sockets hold": unread(more),
		"rows of database/sql unread": func(s *stage, ctx context.Context, _ pgx.Tx, h *Hold) error {
			rows, err := s.bunTx(h).QueryContext(ctx, more) //nolint:rowserrcheck // they are not read
			if err == nil {
				defer rows.Close() //nolint:errcheck // it fails
				<-ctx.Done()
			}
			return err
		},
		"a reader of COPY TO that stands still": func(_ *stage, ctx context.Context, tx pgx.Tx, _ *Hold) error {
			_, err := tx.Conn().PgConn().CopyTo(context.WithoutCancel(ctx), still{ctx}, "COPY ("+more+") TO STDOUT")
			return err
		},
	}, func(t *testing.T, name string, use func(s *stage, ctx context.Context, tx pgx.Tx, h *Hold) error) {
		s := newStage(t)
		s.Enqueue(1, "a")
		l := s.dial(s.dialer(hasty))
		if name == pooled { // nobody can be asked what it does, which is no sign that it has ended
			l.stream.pid = 0
		}
		h := s.claim(l, "a")
		pid := l.pg().PID()
		cause, held := s.beside(l, func(ctx context.Context) {
			tx := s.pgxTx(h)
			_ = use(s, ctx, tx, h)
			<-ctx.Done()
		})
		require.ErrorIs(t, cause, ErrLost)
		require.ErrorIs(t, cause, errUnread, "the server was first")
		require.ErrorIs(t, held, ErrLost)
		s.gone(pid)
	})
}

// still is a writer that takes nothing until a context ends.
type still struct{ ctx context.Context }

func (w still) Write(b []byte) (int, error) {
	<-w.ctx.Done()
	return len(b), nil
}

// A session that is ended while its handler has rows open is noticed by the next heartbeats, however much of them is
// unread.
func TestBeatFindsTheSessionEnded(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"all rows read":                         "SELECT generate_series(1, 8)",
		"rows in the socket":                    "SELECT repeat('x', 1000) FROM generate_series(1, 500)",
		"more than is read ahead":               "SELECT repeat('x', 1000) FROM generate_series(1, 3000)",
		"more than the sockets hold":            "SELECT repeat('x', 1000) FROM generate_series(1, 200000)",
		"a statement that waits, by a pipeline": "",
	}, func(t *testing.T, sql string) {
		s := newStage(t)
		s.Enqueue(1, "a")
		l := s.dial(s.dialer(Bounds{Heartbeat: 100 * time.Millisecond}))
		h := s.claim(l, "a")
		cause, held := s.beside(l, func(ctx context.Context) {
			tx := s.pgxTx(h)
			if sql == "" {
				p := tx.Conn().PgConn().StartPipeline(ctx)
				p.SendQueryParams("SELECT pg_sleep(3600)", nil, nil, nil, nil)
				require.NoError(t, p.Sync())
				defer p.Close() //nolint:errcheck // it fails
			} else {
				rows, err := tx.Query(context.WithoutCancel(ctx), sql)
				require.NoError(t, err)
				defer rows.Close()
				require.True(t, rows.Next())
			}
			s.Terminate(l.pg().PID())
			select {
			case <-ctx.Done():
			case <-time.After(pgtest.Patient):
			}
		})
		require.ErrorIs(t, cause, ErrLost)
		require.ErrorIs(t, held, ErrLost)
	})
}
