package groups

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
)

// A wire says who is using a lane's connection while a handler runs: the handler, or the heartbeat. pgx connections
// are not safe for concurrent use, so the heartbeat goes only when the handler does not, and the handler waits for a
// heartbeat under way. pgx's tracers tell when every kind of statement begins and ends, whichever way the handler
// came by the connection. A handler that uses it twice at once is not held up here: pgx tells it that it is busy.
type wire struct {
	pgx.QueryTracer
	pgx.BatchTracer
	pgx.CopyFromTracer
	pgx.PrepareTracer

	mu      sync.Mutex
	idle    sync.Cond
	lent    bool // a handler runs; else the lane's own goroutine uses the connection, and nobody else may
	users   int
	beating bool

	spoiled atomic.Bool // a handler's statement changed the session for longer than its transaction
}

func newWire(user pgx.QueryTracer) *wire {
	w := &wire{}
	w.idle.L = &w.mu
	t := multitracer.New()
	if user != nil {
		t = multitracer.New(user)
	}
	w.QueryTracer, w.BatchTracer, w.CopyFromTracer, w.PrepareTracer = t, t, t, t
	return w
}

func (w *wire) enter() {
	w.mu.Lock()
	w.users++       // from now on no heartbeat begins
	for w.beating { // one under way; never so for a statement inside a statement
		w.idle.Wait()
	}
	w.mu.Unlock()
}

func (w *wire) leave() {
	w.mu.Lock()
	w.users--
	w.mu.Unlock()
}

// lend lets the handler and the heartbeat use the connection.
func (w *wire) lend() {
	w.mu.Lock()
	w.lent = true
	w.mu.Unlock()
}

// reclaim ends that, waits for a heartbeat under way, and reports whether the handler left a statement open.
func (w *wire) reclaim() (open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.beating {
		w.idle.Wait()
	}
	w.lent = false
	return w.users > 0
}

// tryBeat claims the connection for a heartbeat, if it is lent and nobody is using it.
func (w *wire) tryBeat() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lent || w.users > 0 || w.beating {
		return false
	}
	w.beating = true
	return true
}

func (w *wire) endBeat() {
	w.mu.Lock()
	w.beating = false
	w.mu.Unlock()
	w.idle.Broadcast()
}

func (w *wire) TraceQueryStart(ctx context.Context, c *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	w.enter()
	w.look(d.SQL)
	return w.QueryTracer.TraceQueryStart(ctx, c, d)
}

func (w *wire) TraceQueryEnd(ctx context.Context, c *pgx.Conn, d pgx.TraceQueryEndData) {
	w.QueryTracer.TraceQueryEnd(ctx, c, d)
	w.leave()
}

func (w *wire) TraceBatchStart(ctx context.Context, c *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	w.enter()
	for _, q := range d.Batch.QueuedQueries {
		w.look(q.SQL)
	}
	return w.BatchTracer.TraceBatchStart(ctx, c, d)
}

func (w *wire) TraceBatchEnd(ctx context.Context, c *pgx.Conn, d pgx.TraceBatchEndData) {
	w.BatchTracer.TraceBatchEnd(ctx, c, d)
	w.leave()
}

func (w *wire) TraceCopyFromStart(ctx context.Context, c *pgx.Conn, d pgx.TraceCopyFromStartData) context.Context {
	w.enter()
	return w.CopyFromTracer.TraceCopyFromStart(ctx, c, d)
}

func (w *wire) TraceCopyFromEnd(ctx context.Context, c *pgx.Conn, d pgx.TraceCopyFromEndData) {
	w.CopyFromTracer.TraceCopyFromEnd(ctx, c, d)
	w.leave()
}

func (w *wire) TracePrepareStart(ctx context.Context, c *pgx.Conn, d pgx.TracePrepareStartData) context.Context {
	w.enter()
	return w.PrepareTracer.TracePrepareStart(ctx, c, d)
}

func (w *wire) TracePrepareEnd(ctx context.Context, c *pgx.Conn, d pgx.TracePrepareEndData) {
	w.PrepareTracer.TracePrepareEnd(ctx, c, d)
	w.leave()
}
