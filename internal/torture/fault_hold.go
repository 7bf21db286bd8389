package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// lasts is how long handlers take that take longer than the server bears with silence.
const lasts = 5 * time.Second

// injectHold is no fault: slow handlers of a process take longer than every timeout, and their worker lives. They must
// keep what they hold, and nobody who enqueues behind them may wait.
func injectHold(ctx context.Context, r *run, rng *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
	p := r.reserve(rng.IntN, anyone)
	if p == nil {
		return errNotNow
	}
	defer r.release(p)
	defer p.tell("go")
	r.linger(ctx, p)
	held := r.hub.held(p.name)
	if len(held) == 0 {
		return errNotNow
	}
	r.mark(faultHold, p.name, 0, "")
	r.probe(ctx, held)
	return pause.For(ctx, lasts)
}

// injectRead is a misbehaviour of handlers: they keep rows open for longer than every timeout, and go on with what they
// have of them. No heartbeat can pass meanwhile, and the server takes their sessions for silent.
func injectRead(ctx context.Context, r *run, rng *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
	p := r.reserve(rng.IntN, anyone)
	if p == nil {
		return errNotNow
	}
	defer r.release(p)
	defer p.tell("go")
	p.tell("read")
	until(ctx, 1500*time.Millisecond, func() bool {
		r.feed()
		return len(r.hub.read(p.name)) > 0 || p.ended()
	})
	if len(r.hub.read(p.name)) == 0 {
		return errNotNow
	}
	r.mark(faultRead, p.name, 0, "")
	return pause.For(ctx, lasts)
}
