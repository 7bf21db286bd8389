package groups

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// A tracer counts statements.
type tracer struct{ queries atomic.Int64 }

func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.queries.Add(1)
	return ctx
}

func (t *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
