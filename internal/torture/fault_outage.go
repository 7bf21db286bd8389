package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

const (
	// outage is how long what handlers need is down.
	outage = 2 * time.Second
	// probing is how long a worker may take then to find that it is up again.
	probing = 6 * time.Second
)

// injectOutage has all handlers of queuePlain say that what they need is down, so that workers probe. No attempt is
// counted for it.
func injectOutage(ctx context.Context, r *run, _ *rand.Rand) error {
	r.outage.Lock()
	defer r.outage.Unlock()
	r.mark(faultOutage, "", 0, "")
	r.tellAll("down")
	_ = pause.For(ctx, outage)
	r.tellAll("up")
	r.mark("up", "", 0, "")
	return nil
}

// tellAll tells all worker processes something.
func (r *run) tellAll(word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.slots {
		if p != nil {
			p.tell(word)
		}
	}
}
