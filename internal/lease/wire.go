package lease

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
)

// A wire is a tracer that sees every statement that is made with pgx, whichever way the handler came by the connection.
// It knows which statements a handler leaves open, and refuses those of a handler that has returned.
type wire struct {
	beats sync.Mutex // held by a heartbeat

	mu    sync.Mutex
	lent  bool      // a handler runs; else the lane's own goroutine uses the connection, and nobody else may
	idle  bool      // nobody uses the connection but heartbeats
	lends int       // how often the connection was lent, or left idle
	since time.Time // when that began
	users int
	first *pgconn.PgError // of the statements of the present handler that failed, since one succeeded; or nil
	wrote bool            // they have written rows since written was last called
}

// chain returns a tracer that is the user's, if there is one, and then the wire: so a statement that the user's keeps
// back is refused if its handler has returned meanwhile.
func (w *wire) chain(user pgx.QueryTracer) pgx.QueryTracer {
	if user == nil {
		return w
	}
	t := multitracer.New(user, w)
	t.ConnectTracers = nil
	return t
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

// done says what became of a statement, and that it has ended.
func (w *wire) done(rows int64, err error) {
	w.note(rows, err)
	w.leave()
}

// written reports whether the handler's statements have written rows since it was last called.
func (w *wire) written() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wrote := w.wrote
	w.wrote = false
	return wrote
}

// open lets heartbeats use the connection, and with handler a handler, too.
func (w *wire) open(handler bool) {
	w.mu.Lock()
	w.lent, w.idle, w.first, w.wrote = handler, !handler, nil, false
	w.lends, w.since = w.lends+1, time.Now()
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

// lending returns the number of the lending that is under way, or 0.
func (w *wire) lending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lent && !w.idle {
		return 0
	}
	return w.lends
}

// running returns for how long that lending has been under way, or 0.
func (w *wire) running() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lent && !w.idle {
		return 0
	}
	return max(time.Since(w.since), 1)
}

func (w *wire) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return w.enter(ctx)
}

func (w *wire) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	w.done(writtenBy(ctx, d.CommandTag), d.Err)
}

func (w *wire) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return w.enter(ctx)
}

func (w *wire) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchQueryData) {
	w.note(writtenBy(ctx, d.CommandTag), d.Err)
}

func (w *wire) TraceBatchEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceBatchEndData) {
	if d.Err != nil { // else each query has told
		w.note(0, d.Err)
	}
	w.leave()
}

func (w *wire) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return w.enter(ctx)
}

func (w *wire) TraceCopyFromEnd(_ context.Context, _ *pgx.Conn, d pgx.TraceCopyFromEndData) {
	w.done(d.CommandTag.RowsAffected(), d.Err)
}

func (w *wire) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	return w.enter(ctx)
}

func (w *wire) TracePrepareEnd(_ context.Context, _ *pgx.Conn, d pgx.TracePrepareEndData) {
	if !d.AlreadyPrepared { // else the server was not asked
		w.note(0, d.Err)
	}
	w.leave()
}
