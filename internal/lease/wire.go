package lease

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
)

// A wire sees every statement that is made with pgx, whichever way the handler came by the connection: pgx's tracers
// tell when it begins and ends. It knows which statements a handler leaves open, and refuses those of a handler that
// has returned.
type wire struct {
	pgx.QueryTracer
	pgx.BatchTracer
	pgx.CopyFromTracer
	pgx.PrepareTracer

	beats sync.Mutex // held by a heartbeat

	mu    sync.Mutex
	lent  bool // a handler runs; else the lane's own goroutine uses the connection, and nobody else may
	idle  bool // or what stands beside: nobody uses it but heartbeats
	lends int  // how often it was lent, or left idle
	users int
	first *pgconn.PgError // of the statements of the present handler that failed, since one succeeded; or nil
}

func newWire(user pgx.QueryTracer) *wire {
	w := &wire{}
	t := multitracer.New()
	if user != nil {
		t = multitracer.New(user)
	}
	w.QueryTracer, w.BatchTracer, w.CopyFromTracer, w.PrepareTracer = t, t, t, t
	return w
}

// enter counts a statement. It returns the context to run it with, which has ended if the statement is of a handler
// that has returned: then pgx sends nothing.
func (w *wire) enter(ctx context.Context) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users++
	if !w.lent && w.lends > 0 && ctx.Value(ownKey{}) == nil {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(ErrEnded)
		return ended
	}
	return ctx
}

// ownContext is for a lane's own statements.
var ownContext = context.WithValue(context.Background(), ownKey{}, true)

type ownKey struct{}

func (w *wire) leave() {
	w.mu.Lock()
	w.users--
	w.mu.Unlock()
}

// lend lets the handler use the connection, and heartbeats.
func (w *wire) lend() {
	w.mu.Lock()
	w.lent, w.first = true, nil
	w.lends++
	w.mu.Unlock()
}

// rest lets heartbeats use the connection.
func (w *wire) rest() {
	w.mu.Lock()
	w.idle = true
	w.lends++
	w.mu.Unlock()
}

// reclaim ends both, waits for a heartbeat under way, and reports whether the handler left a statement open.
func (w *wire) reclaim() (open bool) {
	w.mu.Lock()
	w.lent, w.idle = false, false
	open = w.users > 0
	w.mu.Unlock()
	w.beats.Lock()
	defer w.beats.Unlock()
	return open
}

// lease returns which lending, or rest, is under way, or 0.
func (w *wire) lease() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lent && !w.idle {
		return 0
	}
	return w.lends
}

func (w *wire) TraceQueryStart(ctx context.Context, c *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return w.enter(w.QueryTracer.TraceQueryStart(ctx, c, d))
}

func (w *wire) TraceQueryEnd(ctx context.Context, c *pgx.Conn, d pgx.TraceQueryEndData) {
	w.QueryTracer.TraceQueryEnd(ctx, c, d)
	w.note(d.Err)
	w.leave()
}

func (w *wire) TraceBatchStart(ctx context.Context, c *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	return w.enter(w.BatchTracer.TraceBatchStart(ctx, c, d))
}

func (w *wire) TraceBatchQuery(ctx context.Context, c *pgx.Conn, d pgx.TraceBatchQueryData) {
	w.BatchTracer.TraceBatchQuery(ctx, c, d)
	w.note(d.Err)
}

func (w *wire) TraceBatchEnd(ctx context.Context, c *pgx.Conn, d pgx.TraceBatchEndData) {
	w.BatchTracer.TraceBatchEnd(ctx, c, d)
	if d.Err != nil {
		w.note(d.Err)
	}
	w.leave()
}

func (w *wire) TraceCopyFromStart(ctx context.Context, c *pgx.Conn, d pgx.TraceCopyFromStartData) context.Context {
	return w.enter(w.CopyFromTracer.TraceCopyFromStart(ctx, c, d))
}

func (w *wire) TraceCopyFromEnd(ctx context.Context, c *pgx.Conn, d pgx.TraceCopyFromEndData) {
	w.CopyFromTracer.TraceCopyFromEnd(ctx, c, d)
	w.note(d.Err)
	w.leave()
}

func (w *wire) TracePrepareStart(ctx context.Context, c *pgx.Conn, d pgx.TracePrepareStartData) context.Context {
	return w.enter(w.PrepareTracer.TracePrepareStart(ctx, c, d))
}

func (w *wire) TracePrepareEnd(ctx context.Context, c *pgx.Conn, d pgx.TracePrepareEndData) {
	w.PrepareTracer.TracePrepareEnd(ctx, c, d)
	if !d.AlreadyPrepared {
		w.note(d.Err)
	}
	w.leave()
}
