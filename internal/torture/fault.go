package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// The names of faults.
const (
	faultKill      = "kill"
	faultStop      = "stop"
	faultTerminate = "terminate"
	faultRestart   = "restart"
	faultCrash     = "crash"
	faultPartition = "partition"
	faultLose      = "lost-commit"
	faultReset     = "reset"
	faultLatency   = "latency"
	faultHold      = "hold"
	faultSweep     = "sweep"
	faultRead      = "read"
	faultOperator  = "operator"
	faultClash     = "clash"
	faultVacuum    = "vacuum"
	faultNotices   = "notices"
	faultStubborn  = "stubborn"
	faultOutage    = "outage"
	faultBounce    = "bounce"
	faultSever     = "sever"
	faultLease     = "lease"
)

var errNotNow = errors.New("nobody to do it to")

// A Kind is one kind of fault.
type Kind struct {
	Flag   string // how many there are to be: its key in Config.Faults, and the flag of cmd/torture
	name   string
	inject func(ctx context.Context, r *run, rng *rand.Rand) error // errNotNow: it cannot be done at the moment
	traits trait
	Usage  string
}

// A trait says what a fault needs, and what may go on while it is injected.
type trait uint8

const (
	slow      trait = 1 << iota // it takes a while; others are injected meanwhile
	light                       // no worker process is needed for it
	exclusive                   // it takes the server, or all workers, down: nothing that lasts goes on meanwhile
	undaunted                   // it goes on meanwhile all the same
	another                     // it takes another worker process
	freezing                    // it stops a process, which takes another one, too
	proxied                     // it is done to those behind the proxy
	sessions                    // it is done to queues with Settings.SessionLease
)

func (k *Kind) is(t trait) bool { return k.traits&t != 0 }

// Kinds are all faults that there are.
var Kinds = []*Kind{
	{"kills", faultKill, toOne(anyone, injectKill), another, "SIGKILLs of worker processes"},
	{"stops", faultStop, toOne(stoppable, injectStop), slow | freezing, "SIGSTOPs of workers, longer than any timeout"},
	{"terminates", faultTerminate, injectTerminate, 0, "sessions of workers and producers, ended"},
	{"severs", faultSever, injectSever, another | sessions, "sessions that hold groups of workers, ended"},
	{"leases", faultLease, injectLease, light | sessions, "changes of the lease of a queue"},
	{"restarts", faultRestart, injectRestart, exclusive, "immediate shutdowns of the server, and its restart"},
	{"crashes", faultCrash, injectCrash, exclusive, "SIGKILLs of a server process: it ends all sessions and recovers"},
	{"partitions", faultPartition, injectPartition, slow | proxied, "times that two workers are cut off for as long"},
	{"lost-commits", faultLose, injectLose, proxied, "COMMITs whose answer is lost"},
	{"resets", faultReset, injectReset, proxied, "resets of all connections of two worker processes"},
	{"latency", faultLatency, injectLatency, slow | light | undaunted | proxied, "spells of slow connections"},
	{"holds", faultHold, toOne(anyone, injectHold), slow | another, "handlers slower than any timeout"},
	{"sweeps", faultSweep, injectSweep, slow | freezing, "SIGSTOPs of workers in the middle of a sweep"},
	{"reads", faultRead, toOne(anyone, injectRead), slow | another, "handlers that keep rows open for as long"},
	{"operators", faultOperator, injectOperator, 0, "locks, deletions and purges of an operator that are rolled back"},
	{"clashes", faultClash, injectClash, slow | light, "jobs that cannot be given up: a dead letter is in the way"},
	{"vacuums", faultVacuum, injectVacuum, exclusive, "SIGKILLs of all workers, with VACUUM and CHECKPOINT behind"},
	{"notices", faultNotices, injectNotices, slow | light, "spells in which the server's queue of notices is full"},
	{"stubborn", faultStubborn, injectStubborn, 0, "handlers that never end; in a soak, late"},
	{"outages", faultOutage, injectOutage, slow | light | undaunted, "spells in which handlers say Unavailable"},
	{"bounces", faultBounce, toOne(anyone, injectBounce), another, "workers that start again in their process"},
}

// plan returns all faults of the run, in the order in which they are to be injected.
func (r *run) plan() (faults []*Kind) {
	for _, kind := range Kinds {
		count := r.cfg.Faults[kind.Flag]
		if why := r.impossible(kind); why != "" && count > 0 {
			r.leave(kind.name, why)
			continue
		}
		for range count {
			faults = append(faults, kind)
		}
	}
	rng := r.newRNG(1)
	rng.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for from := 0; from < len(faults); from += round {
		arrange(faults[from:min(from+round, len(faults))])
	}
	return faults
}

// round is how many faults are arranged beside each other: all of the short profile.
const round = 40

// arrange puts first what lasts, with others between, and last what nobody may be in the midst of: those wait for all
// that last, and nothing else can be begun meanwhile.
func arrange(faults []*Kind) {
	var lasting, alone, others []*Kind
	for _, f := range faults {
		switch {
		case f.is(slow):
			lasting = append(lasting, f)
		case f.is(exclusive):
			alone = append(alone, f)
		default:
			others = append(others, f)
		}
	}
	between := len(others) / (2*len(lasting) + 1)
	list := make([]*Kind, 0, len(faults))
	for _, f := range lasting {
		list = append(append(list, f), others[:between]...)
		others = others[between:]
	}
	copy(faults, append(append(list, others...), alone...))
}

// impossible returns why a kind of fault cannot be injected here, or "".
func (r *run) impossible(f *Kind) string {
	switch {
	case f.is(another|freezing) && r.cfg.Processes < 2:
		return "there must be another worker process"
	case f.is(proxied) && r.wayOf(0) != byProxy:
		return "it takes three worker processes"
	case f.is(sessions) && r.cfg.Batch == 1:
		return "there is no queue with Settings.SessionLease"
	case f.is(freezing) && !canStop:
		return "processes cannot be stopped here"
	case f.name == faultRead && !r.cfg.does(doRows):
		return "no handler has rows open"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leftOut[f.name]
}

// injectAll injects the faults, in step with the jobs.
func (r *run) injectAll(ctx context.Context, faults []*Kind) {
	rng := r.newRNG(2)
	room := make(chan struct{}, max(1, r.cfg.Processes/2))
	began := time.Now()
	var all sync.WaitGroup
	defer all.Wait()
	for i, f := range faults {
		due := int64(r.cfg.Jobs) * int64(i+1) / int64(len(faults)+1)
		for r.progress() < due && !r.over(ctx, began) {
			_ = pause.For(ctx, 10*time.Millisecond)
		}
		if r.over(ctx, began) {
			r.leave(fmt.Sprintf("%d faults", len(faults)-i), "the run had come to its end")
			break
		}
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		r.begun.Add(1)
		switch {
		case !f.is(slow):
			r.inject(ctx, f, rng)
		case f.is(light):
			all.Go(func() { r.inject(ctx, f, rng) })
		default:
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				r.inject(ctx, f, rng)
			})
		}
	}
	all.Wait()
	r.finished.Store(true)
}

// over reports whether the run is to come to an end, whatever is left to be done.
func (r *run) over(ctx context.Context, began time.Time) bool {
	if r.cfg.For > 0 && time.Since(began) > r.cfg.For {
		r.enough.Store(true)
	}
	return ctx.Err() != nil || r.enough.Load() || r.failed() != nil
}

// inject injects a fault, as soon as that is possible.
func (r *run) inject(ctx context.Context, f *Kind, rng *rand.Rand) {
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err = r.try(ctx, f, rng); err == nil {
			r.mu.Lock()
			r.injected[f.name]++
			n := r.injected[f.name]
			r.mu.Unlock()
			r.log("%s %d; %d of %d messages", f.name, n, r.progress(), r.cfg.Jobs)
			return
		}
		if !errors.Is(err, errNotNow) && r.failed() == nil && ctx.Err() == nil {
			r.log("%s: %v", f.name, err)
		}
		r.feed()
		_ = pause.For(ctx, 20*time.Millisecond)
	}
	if ctx.Err() == nil {
		r.fail(fmt.Errorf("%s: %w", f.name, err))
	}
}

// try injects a fault, if it can be done at the moment.
func (r *run) try(ctx context.Context, f *Kind, rng *rand.Rand) error {
	switch {
	case f.is(exclusive):
		r.server.Lock()
		defer r.server.Unlock()
		r.down.Store(true)
		defer r.down.Store(false)
	case !f.is(undaunted):
		r.server.RLock()
		defer r.server.RUnlock()
	}
	return f.inject(ctx, r, rng)
}

// toOne is what is done to one worker process, and to its slow handlers, which go on then.
func toOne(wanted func(*process) bool, inject func(context.Context, *run, *rand.Rand, *process) error,
) func(context.Context, *run, *rand.Rand) error {
	return func(ctx context.Context, r *run, rng *rand.Rand) error {
		p := r.reserve(rng.IntN, wanted)
		if p == nil {
			return errNotNow
		}
		defer r.release(p)
		defer p.tell("go")
		return inject(ctx, r, rng, p)
	}
}

// feed lets some messages be sent before their time.
func (r *run) feed() {
	if r.backlog.Load() == 0 && r.extra.Load() < int64(r.cfg.Jobs) {
		r.extra.Add(5)
	}
}

// A mark is something that the harness did or saw.
type mark struct {
	at   int64
	what string
	proc string
	pid  int64
	note string
}

// mark takes something down.
func (r *run) mark(what, proc string, pid int64, note string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := mark{now(), what, proc, pid, note}
	r.marks = append(r.marks, m)
	if proc == "" {
		proc = "-"
	}
	r.book.line("%s %s %d %s", what, proc, pid, note)
}

// waited reports whether a channel was closed in time.
func waited(ctx context.Context, c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
