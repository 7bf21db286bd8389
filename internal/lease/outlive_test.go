package lease

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Nothing that a handler has kept is of use when its job has ended: neither in the transaction of the next job of its
// lane, nor between jobs, nor when the lane is idle.
func TestNothingOutlivesItsJob(t *testing.T) {
	const insert = "INSERT INTO effects VALUES ('late')"
	ctx := context.Background()
	exec := func(tx pgx.Tx) func() error {
		return func() error { _, err := tx.Exec(ctx, insert); return err }
	}
	pgtest.OverAll(t, map[string]func(s *stage, h *Hold) (use func() error){
		"pgx":           func(s *stage, h *Hold) func() error { return exec(s.pgxTx(h)) },
		"begun on it":   func(s *stage, h *Hold) func() error { return exec(s.inside(s.pgxTx(h))) },
		"begun on that": func(s *stage, h *Hold) func() error { return exec(s.inside(s.inside(s.pgxTx(h)))) },
		"begun, the outer committed": func(s *stage, h *Hold) func() error {
			tx := s.pgxTx(h)
			inner := s.inside(tx)
			require.NoError(s, tx.Commit(ctx))
			return exec(inner)
		},
		"begins late": func(s *stage, h *Hold) func() error {
			inner := s.inside(s.pgxTx(h))
			return func() error { _, err := inner.Begin(ctx); return err }
		},
		"commits late": func(s *stage, h *Hold) func() error {
			inner := s.inside(s.pgxTx(h))
			return func() error { return inner.Commit(ctx) }
		},
		"rolls back late": func(s *stage, h *Hold) func() error {
			inner := s.inside(s.pgxTx(h))
			return func() error { return inner.Rollback(ctx) }
		},
		"queries late": func(s *stage, h *Hold) func() error {
			inner := s.inside(s.pgxTx(h))
			return func() error { return inner.QueryRow(ctx, insert+" RETURNING v").Scan(new(string)) }
		},
		"a batch": func(s *stage, h *Hold) func() error {
			inner := s.inside(s.pgxTx(h))
			return func() error {
				b := &pgx.Batch{}
				b.Queue(insert)
				return inner.SendBatch(ctx, b).Close()
			}
		},
		"COPY": func(s *stage, h *Hold) func() error {
			inner := s.inside(s.pgxTx(h))
			return func() error {
				_, err := inner.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"v"},
					pgx.CopyFromRows([][]any{{"late"}}))
				return err
			}
		},
		"prepared by pgx": func(s *stage, h *Hold) func() error {
			tx := s.pgxTx(h)
			_, err := tx.Prepare(ctx, "late", insert)
			require.NoError(s, err)
			return func() error { _, err := tx.Exec(ctx, "late"); return err }
		},
		"large objects": func(s *stage, h *Hold) func() error {
			large := s.pgxTx(h).LargeObjects()
			return func() error { _, err := large.Create(ctx, 4711); return err }
		},
		"large objects of a nested one": func(s *stage, h *Hold) func() error {
			large := s.inside(s.pgxTx(h)).LargeObjects()
			return func() error { _, err := large.Create(ctx, 4711); return err }
		},
		"a large object": func(s *stage, h *Hold) func() error {
			large := s.pgxTx(h).LargeObjects()
			oid, err := large.Create(ctx, 0)
			require.NoError(s, err)
			object, err := large.Open(ctx, oid, pgx.LargeObjectModeWrite)
			require.NoError(s, err)
			return func() error { _, err := object.Write([]byte("late")); return err }
		},
		"bun": func(s *stage, h *Hold) func() error {
			tx := s.bunTx(h)
			return func() error { _, err := tx.Exec(insert); return err }
		},
		"a bun.Tx begun on it": func(s *stage, h *Hold) func() error {
			tx := s.bunInside(ctx, s.bunTx(h))
			return func() error { _, err := tx.Exec(insert); return err }
		},
		"prepared by bun": func(s *stage, h *Hold) func() error {
			stmt, err := s.bunTx(h).PrepareContext(ctx, insert)
			require.NoError(s, err)
			return func() error { _, err := stmt.ExecContext(ctx); return err }
		},
		"the sql.Tx of bun": func(s *stage, h *Hold) func() error {
			tx := s.bunTx(h).Tx
			return func() error { _, err := tx.ExecContext(ctx, insert); return err }
		},
		"a cursor": func(s *stage, h *Hold) func() error {
			tx := s.inside(s.pgxTx(h))
			s.do(tx, "DECLARE late CURSOR FOR SELECT generate_series(1, 10)")
			return func() error { _, err := tx.Exec(ctx, "FETCH 1 FROM late"); return err }
		},
	}, func(t *testing.T, keep func(s *stage, h *Hold) (use func() error)) {
		s, l, h := held(t, 2)
		s.Exec("CREATE TABLE effects (v text)")
		var use func() error
		require.NoError(t, l.Lend(t.Context(), func() { use = keep(s, h) }))
		require.Error(t, use(), "when the handler has returned")
		h = s.step(l, succeed(h), &Request{Key: group("a")})
		require.Error(t, use(), "when the next job is claimed")
		require.NoError(t, l.Lend(t.Context(), func() {
			require.Error(t, use(), "in the next handler")
			s.write(s.pgxTx(h), "the next job's")
			require.Error(t, use(), "in the next job's transaction")
		}))
		s.end(l, succeed(h)...)
		require.Error(t, use(), "when the lane is idle")
		require.Equal(t, []string{"the next job's"}, pgtest.Column[string](s.DB, "SELECT v FROM effects"))
		require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pg_largeobject_metadata WHERE oid = 4711"))
		require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pg_largeobject"))
		require.False(t, l.Closed())
	})
}

// The connection itself is of no use between jobs. What stands beside a claim lets heartbeats pass, and nothing that a
// handler has kept.
func TestConnOutlivesNoJob(t *testing.T) {
	s, l, h := held(t, 2)
	s.Exec("CREATE TABLE effects (v text)")
	var conn *pgx.Conn
	require.NoError(t, l.Lend(t.Context(), func() { conn = s.pgxTx(h).Conn() }))
	late := func() {
		t.Helper()
		_, err := conn.Exec(t.Context(), "INSERT INTO effects VALUES ('late')")
		require.ErrorIs(t, err, context.Canceled)
		_, err = conn.Exec(t.Context(), "INSERT INTO effects VALUES ($1)", "late")
		require.ErrorIs(t, err, context.Canceled)
		_, err = conn.CopyFrom(t.Context(), pgx.Identifier{"effects"}, []string{"v"},
			pgx.CopyFromRows([][]any{{"late"}}))
		require.ErrorIs(t, err, context.Canceled)
		b := &pgx.Batch{}
		b.Queue("INSERT INTO effects VALUES ('late')")
		require.ErrorIs(t, conn.SendBatch(t.Context(), b).Close(), context.Canceled)
	}
	late()
	h = s.step(l, succeed(h), &Request{Key: group("a")})
	late()
	l.Aside(func() {
		require.NoError(t, l.Beat(t.Context()))
		late()
	})
	require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "the next job's") }))
	s.end(l, succeed(h)...)
	require.Equal(t, []string{"the next job's"}, pgtest.Column[string](s.DB, "SELECT v FROM effects"))
}

// A statement of a goroutine that is under way when the handler returns is cut off: the connection is given up, because
// nobody can tell what the goroutine will do with it. The group is free when the server notices, within a second
// (client_connection_check_interval).
func TestStatementUnderWayIsCutOff(t *testing.T) {
	const slow = "SELECT pg_sleep(3600)"
	pgtest.OverAll(t, map[string]func(s *stage, h *Hold) (run func() error){
		"pgx": func(s *stage, h *Hold) func() error {
			tx := s.pgxTx(h)
			return func() error { _, err := tx.Exec(context.Background(), slow); return err }
		},
		"bun": func(s *stage, h *Hold) func() error {
			tx := s.bunTx(h)
			return func() error { _, err := tx.ExecContext(context.Background(), slow); return err }
		},
		"a query of bun's": func(s *stage, h *Hold) func() error {
			tx := s.bunTx(h)
			return func() error { return tx.QueryRowContext(context.Background(), slow).Scan(new(string)) }
		},
		"the sql.Tx of bun": func(s *stage, h *Hold) func() error {
			tx := s.bunTx(h).Tx
			return func() error { _, err := tx.ExecContext(context.Background(), slow); return err }
		},
	}, func(t *testing.T, begin func(s *stage, h *Hold) (run func() error)) {
		s, l, h := held(t, 1)
		pid := l.pg().PID()
		var leaked <-chan error
		err := l.Lend(t.Context(), func() {
			leaked = beside(begin(s, h))
			s.Until(func() bool { return s.Active(pid) })
		})
		require.ErrorIs(t, err, ErrNotHeld)
		require.ErrorContains(t, err, "still open")
		require.True(t, l.Closed())
		require.Error(t, <-leaked)
		s.Until(func() bool { return len(s.Locked()) == 0 })
	})
}

// A holding tracer keeps a statement from being sent until it is let go.
type holding struct {
	sql         string
	held, letGo chan struct{}
}

func (h *holding) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if d.SQL == h.sql {
		close(h.held)
		<-h.letGo
	}
	return ctx
}

func (*holding) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A statement that a goroutine has begun before its handler returns, and not sent yet, is not sent into the next job's
// transaction: the connection is given up.
func TestStatementHeldBack(t *testing.T) {
	const insert = "INSERT INTO effects VALUES ('of the first job')"
	pgtest.OverNamed(t, map[string]func(context.Context, pgx.Tx) error{
		insert:    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, insert); return err },
		undoOuter: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	}, func(t *testing.T, sql string, use func(context.Context, pgx.Tx) error) {
		s := newStage(t)
		s.Enqueue(1, "a")
		s.Exec("CREATE TABLE effects (v text)")
		tracer := &holding{sql, make(chan struct{}), make(chan struct{})}
		d := s.dialer(Bounds{})
		d.Pool.ConnConfig.Tracer = tracer
		l := s.dial(d)
		h := s.claim(l, "a")
		var ended <-chan error
		require.ErrorIs(t, l.Lend(t.Context(), func() {
			tx := s.pgxTx(h)
			ended = beside(func() error { return use(t.Context(), tx) })
			<-tracer.held
		}), ErrNotHeld)
		close(tracer.letGo)
		require.Error(t, <-ended)
		require.True(t, l.Closed())
	})
}
