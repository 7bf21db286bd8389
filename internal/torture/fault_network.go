package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// behind returns the names of the worker processes of a way.
func (r *run) behind(w way) []*process {
	return slices.DeleteFunc(r.workers(), func(p *process) bool { return p.way != w })
}

// markAll takes something down for all processes of a way.
func (r *run) markAll(what string, w way, note string) {
	for _, p := range r.behind(w) {
		r.mark(what, p.name, 0, note)
	}
}

// noteLoss ends the note of a partition that the kernels know nothing of.
const noteLoss = " is lost"

// injectPartition cuts worker processes off for longer than every timeout: by taking down the link of the network
// namespace, or with the proxy, which loses what goes in one direction and keeps the connections open.
func injectPartition(ctx context.Context, r *run, rng *rand.Rand) error {
	w := byProxy
	if r.net != nil && rng.IntN(3) > 0 {
		w = byNet
	}
	dir := netfault.Direction(rng.IntN(2))
	victims, ok := r.reserveAll(w)
	if !ok {
		return errNotNow
	}
	defer r.releaseAll(w, victims)
	var held []int32
	for _, p := range victims {
		held = append(held, r.linger(ctx, p, "linger", anyGroup)...)
	}
	note := "the link is down"
	if w == byProxy {
		note = "what goes " + dir.String() + noteLoss
	}
	r.markAll("cut", w, note)
	if w == byNet {
		if err := r.net.Cut(); err != nil {
			return fmt.Errorf("cut: %w", err)
		}
	} else {
		r.proxy.Drop(dir, true)
	}
	r.probe(ctx, held)
	_ = pause.For(ctx, freeze)
	for _, p := range victims {
		r.still(ctx, p)
	}
	r.markAll("healed", w, "")
	if w == byNet {
		return r.net.Heal()
	}
	r.proxy.Drop(dir, false)
	return nil
}

// reserveAll is reserve for all processes of a way, and for the way itself: a process that has ended meanwhile is
// followed by another one, which nobody has reserved, and whoever healed the way would do so under another one's cut.
func (r *run) reserveAll(w way) (procs []*process, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut[w] {
		return nil, false
	}
	others := 0
	for _, p := range r.slots {
		switch {
		case p == nil || p.ended():
		case p.way == w && p.reserved:
			return nil, false
		case p.way == w:
			procs = append(procs, p)
		case !p.reserved:
			others++
		}
	}
	if len(procs) == 0 || others == 0 {
		return nil, false
	}
	for _, p := range procs {
		p.reserved = true
	}
	r.cut[w] = true
	return procs, true
}

// releaseAll is the end of reserveAll.
func (r *run) releaseAll(w way, procs []*process) {
	for _, p := range procs {
		p.tell("go")
		r.release(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cut, w)
}

// injectLose has the server's answer to the next COMMIT through the proxy lost, with its connection.
func injectLose(ctx context.Context, r *run, _ *rand.Rand) error {
	before := r.proxy.LostCommits()
	r.markAll(faultLose, byProxy, "")
	r.proxy.LoseCommits(1)
	lost := until(ctx, 5*time.Second, func() bool {
		r.feed()
		return r.proxy.LostCommits() > before
	})
	if !lost {
		r.proxy.LoseCommits(0)
		return errNotNow // they are frozen, say
	}
	r.markAll("lost", byProxy, "")
	return nil
}

// injectReset resets all connections through the proxy.
func injectReset(_ context.Context, r *run, _ *rand.Rand) error {
	r.markAll(faultReset, byProxy, "")
	if r.proxy.Reset() == 0 {
		return errNotNow
	}
	return nil
}

// slowFor is how long the proxy is slow.
const slowFor = 2 * time.Second

// injectLatency slows the proxy down for a while.
func injectLatency(ctx context.Context, r *run, rng *rand.Rand) error {
	r.markAll(faultLatency, byProxy, "")
	r.proxy.Latency(time.Duration(5+rng.IntN(50)) * time.Millisecond)
	_ = pause.For(ctx, slowFor)
	r.proxy.Latency(0)
	return nil
}
