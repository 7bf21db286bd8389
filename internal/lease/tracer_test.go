package lease

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

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
	t.Parallel()
	const insert = "INSERT INTO effects VALUES ('of the first job')"
	for sql, use := range map[string]func(context.Context, pgx.Tx) error{
		insert:    func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, insert); return err },
		undoOuter: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		t.Run(sql, func(t *testing.T) {
			s := newStage(t)
			s.Enqueue(1, "a")
			s.Exec("CREATE TABLE effects (v text)")
			tracer := &holding{sql, make(chan struct{}), make(chan struct{})}
			d := s.dialer(Bounds{})
			d.Pool.ConnConfig.Tracer = tracer
			l := s.dial(d)
			h := s.claim(l, "a")
			ended := make(chan error, 1)
			require.ErrorIs(t, l.Lend(func() {
				tx := s.pgxTx(h)
				go func() { ended <- use(t.Context(), tx) }()
				<-tracer.held
			}), ErrNotHeld)
			close(tracer.letGo)
			require.Error(t, <-ended)
			require.True(t, l.Closed())
		})
	}
}
