package torture

import (
	"context"
	"math/rand/v2"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// holdFault is no fault: slow handlers of a worker process take longer than every timeout, and their worker lives. They
// must keep what they hold, and nobody who enqueues behind them may wait.
type holdFault struct{}

func (holdFault) name() string { return faultHold }
func (holdFault) slow()        {}

func (holdFault) inject(ctx context.Context, r *run, rng *rand.Rand) error {
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
	return pause.For(ctx, freeze)
}
