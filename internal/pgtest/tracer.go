package pgtest

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// A Tracer counts statements.
type Tracer struct {
	Having  string // in their texts; empty: all
	Queries atomic.Int64
}

// TraceQueryStart counts one.
func (t *Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, t.Having) {
		t.Queries.Add(1)
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (*Tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
