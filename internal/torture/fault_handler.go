package torture

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
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
func (h *handlers) workStubborn(ctx context.Context) {
	worker := h.newWorker()
	worker.Concurrency, worker.JobTimeout, worker.AbandonAfter = 1, timeout, abandon
	worker.DrainTimeout, worker.SweepInterval, worker.GroupIdle = time.Second, -1, 0
	worker.Handle(queueStubborn, h.handle)
	_ = h.supervise(ctx, worker, new(atomic.Pointer[context.CancelFunc])) // ErrDrainTimeout, for those that do not end
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
					"the handler of job %d does not end, and its group was not free %v later", job,
					time.Duration(min(next-t.start, int64(time.Minute))).Round(time.Millisecond))
			}
		}
	}
}

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
	for _, p := range r.workers() {
		p.tell(word)
	}
}

const (
	// clashFor is how long dead letters are in the way of others.
	clashFor = 2500 * time.Millisecond
	// mostClashes is how many there are at once.
	mostClashes = 32
)

// doPlanted is what a dead letter says that is in the way.
const doPlanted = "planted"

// injectClash has jobs fail for good for which there are dead letters already, as after a partial restore, so that it
// may not be possible to record that: as many as there are lanes. Half of them are tried again, and their failures
// recorded; the others have no attempts left. Their groups may wait, until somebody has put that right; no other group
// may.
func injectClash(ctx context.Context, r *run, _ *rand.Rand) error {
	r.clash.Lock() // one after the other: the record says from when until when
	defer r.clash.Unlock()
	planted, err := json.Marshal(task{N: -1, Do: doPlanted})
	if err != nil {
		return err
	}
	for range min(r.cfg.Processes*r.cfg.Lanes, mostClashes) {
		group := r.spare()
		id, err := r.send(ctx, howClash, doLetter, group, 300*time.Millisecond)
		if err != nil {
			return errNotNow
		}
		_, err = r.pool.Exec(ctx, `INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
			VALUES ($1, $2, $3, $4, 1, now())`, queuePlain, groupID(group), id, planted)
		if err != nil {
			return err
		}
		_, _ = r.send(ctx, howClash, "", group, 0) // behind it
	}
	r.mark(faultClash, "", 0, "")
	_ = pause.For(ctx, clashFor)
	_, err = r.pool.Exec(ctx, "DELETE FROM pgfifo.dead_letters WHERE payload = $1", planted)
	r.mark("cleared", "", 0, "")
	return err
}
