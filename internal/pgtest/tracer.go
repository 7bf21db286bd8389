package pgtest

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// A Tracer counts statements.
type Tracer struct{ Queries atomic.Int64 }

// TraceQueryStart counts one.
func (t *Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.Queries.Add(1)
	return ctx
}

// TraceQueryEnd does nothing.
func (*Tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
