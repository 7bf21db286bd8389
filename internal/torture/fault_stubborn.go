package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

const (
	// timeout is how long a handler may take in the queue of those that do not end, and abandon how long it may then
	// go on.
	timeout, abandon = 800 * time.Millisecond, 700 * time.Millisecond
	// stubbornGroups is how many groups that queue has.
	stubbornGroups = 16
)

// injectStubborn has a job whose handler never ends, and another one behind it in its group. The worker is to give the
// session up, so that the group and the lane are free.
func injectStubborn(ctx context.Context, r *run, _ *rand.Rand) error {
	group := stubbornFrom + r.spares.Add(1)%stubbornGroups
	if _, err := r.send(ctx, howStubborn, doStubborn, group, 0); err != nil {
		return errNotNow
	}
	_, _ = r.send(ctx, howStubborn, "", group, 0)
	return nil
}

// workStubborn works the queue of the handlers that do not end, until ctx is done.
func (h *handlers) workStubborn(ctx context.Context, o order) {
	worker := h.newWorker(o)
	worker.Concurrency, worker.JobTimeout, worker.AbandonAfter = 1, timeout, abandon
	worker.DrainTimeout, worker.SweepInterval, worker.GroupIdle = time.Second, -1, 0
	worker.Handle(queueStubborn, h.handle)
	var again redial
	for ctx.Err() == nil {
		err := worker.Run(ctx)
		if err != nil && !errors.Is(err, fifo.ErrDrainTimeout) { // that is of those that do not end
			h.book.write(evTrouble, 0, 0, 0, 0, "worker: "+err.Error())
		}
		_ = again.wait(ctx)
	}
}

// freedWithin bounds how long a handler that does not end may keep its group.
const freedWithin = int64(timeout + abandon + 3*time.Second)

const again = "a job's next start whose handler did not end"

// checkStubborn: I7, a handler that does not end is told, and its group is free in time.
func (c *checker) checkStubborn() {
	for job, turns := range c.byJob {
		for i, t := range turns {
			if t.do != doStubborn || t.attempt != 1 {
				continue
			}
			next := int64(forever)
			if i+1 == len(turns) && min(t.died, t.lost) < t.start+freedWithin {
				continue
			}
			c.did("I7", 1)
			if i+1 < len(turns) {
				next = turns[i+1].start
				c.latency[again] = append(c.latency[again], next-t.start)
			}
			bound := freedWithin + c.away(t.start, t.start+2*freedWithin) + c.ran(t.proc, t.start, t.start+freedWithin)
			switch {
			case min(t.told, t.lost, t.died, t.end)-t.start > bound: // it ends if it cannot begin its transaction
				c.broken("I7", t.start+bound, t.group, []int64{job},
					"the handler of job %d has never been told that it takes too long", job)
			case next-t.start > bound:
				c.broken("I7", t.start+bound, t.group, []int64{job},
					"the handler of job %d does not end, and its group was not free %v later",
					job, time.Duration(min(next-t.start, int64(time.Minute))).Round(time.Millisecond))
			}
		}
	}
}
