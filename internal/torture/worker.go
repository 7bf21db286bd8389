package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/rest"
)

// work is the life of a worker process, until it is told to stop, its death, or that of its parent.
func work(o order, book *journal, hub *rpc.Client) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	pool, err := o.connect(ctx, o.Lanes)
	if err != nil {
		return err
	}
	defer pool.Close()
	h := &handlers{order: o, book: book, hub: hub}
	client := fifo.Open(pool, &fifo.Config{
		Logger: logger(func(line string) {
			if !attemptLines.MatchString(line) {
				book.write(evTrouble, 0, 0, 0, 0, line)
			}
		}),
		Hooks: []fifo.Hooks{{Settled: func(_ context.Context, job *fifo.Job, outcome fifo.Outcome, err error) {
			settled(book, job, outcome, err)
			if c, ok := h.waiting.LoadAndDelete([2]int64{job.ID, int64(job.Attempt())}); ok {
				close(c.(chan struct{}))
			}
		}}},
	})
	defer func() { _ = client.Close() }()
	h.client, h.pool = client, pool
	go untilOrphaned(func(word string) {
		if word == "stop" {
			stop()
		}
		h.tell(word)
	})
	go watchStalls(book)
	var before *level
	if o.Soak {
		if err := pool.Ping(ctx); err != nil {
			return err
		}
		go sampleMemory(pool, o.Name, book)
		before = atRest(pool)
	}
	var beside sync.WaitGroup
	beside.Go(func() { h.workStubborn(ctx) })
	var keptErr error
	if o.Keeps {
		beside.Go(func() { keptErr = h.supervise(ctx, h.worker(true), &h.bounce[1]) })
	}
	err = h.supervise(ctx, h.worker(false), &h.bounce[0])
	beside.Wait()
	err = errors.Join(err, keptErr)
	if err == nil {
		book.write(evDown, 0, 0, 0, 0, "-")
	}
	if o.Soak {
		debug.SetGCPercent(-1) // it would close what somebody has forgotten
		_ = hub.Close()
		_ = client.Close()
		more := leftovers(pool, before)
		book.write(evLeft, 0, 0, 0, int64(len(more)), strings.Join(more, "; "))
	}
	return err
}

// worker returns the worker of the queues whose groups a session holds, or of the others. The first has few lanes, runs
// many more jobs at once, and has both leases while queueMixed has the other one.
func (h *handlers) worker(session bool) *fifo.Worker {
	worker := h.newWorker()
	if session {
		worker.Concurrency, worker.SessionConcurrency = keptLanes, jobsPerLane*keptLanes
	}
	for name, q := range queues {
		if mayKeep(name) != session || name == queueStubborn || h.Batch == 1 && name != queuePlain {
			continue
		}
		q.BatchJobs *= h.Batch
		q.BatchGroups *= h.Batch
		if q.Handler = h.handle; name == queueSlice {
			q.Handler, q.BatchHandler = nil, h.handleBatch
		}
		worker.HandleQueue(name, q.Queue)
	}
	return worker
}

// newWorker returns a worker with the bounds of all.
func (h *handlers) newWorker() *fifo.Worker {
	return &fifo.Worker{
		Client: h.client, Name: h.Name, Concurrency: h.Lanes, MaxAttempts: mostLives, Retry: retry,
		Heartbeat: heartbeat, Silence: silence, ServerSilence: serverSilence,
		SweepInterval: sweepEvery, GroupIdle: groupIdle,
	}
}

// A worker that could not connect waits longer each time. Many that try again and again keep a busy server from
// answering any of them.
const leastRedial, mostRedial = 100 * time.Millisecond, 3 * time.Second

// supervise runs a worker until ctx is done, over and over: the server may be down just now, or it is told to bounce.
func (h *handlers) supervise(ctx context.Context, worker *fifo.Worker, bounce *atomic.Pointer[context.CancelFunc],
) error {
	for failed := 0; ; {
		running, end := context.WithCancel(ctx)
		bounce.Store(&end)
		began := time.Now()
		err := worker.Run(running)
		end()
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			continue
		}
		h.book.write(evTrouble, 0, 0, 0, 0, "worker: "+err.Error())
		if failed++; time.Since(began) > 2*mostRedial {
			failed = 1
		}
		wait := rest.Nth(failed, leastRedial, mostRedial)
		_ = pause.For(ctx, wait/2+rand.N(wait))
	}
}

// poisonWait is how long a job has to wait that has killed its worker.
const poisonWait = time.Second

var (
	backoff = fifo.Backoff(time.Millisecond, 20*time.Millisecond)
	parked  = fifo.Backoff(10*time.Millisecond, time.Second) // of a job that is to be given up, and cannot be
)

// retry is the Retry of all workers.
func retry(job *fifo.Job, err error) time.Duration {
	switch t, bad := readTask(job.Payload); {
	case bad == nil && t.kills() && isDied(err):
		return poisonWait
	case bad == nil && t.Do == doLetter:
		return parked(job, err)
	}
	return backoff(job, err)
}

// share divides the groups among four, of which one has more than its part.
func share(groupID string) string { return fmt.Sprint(len(groupID) % 4) }

// settled logs the outcome of an attempt. One that died with another worker has a word of its own.
func settled(book *journal, job *fifo.Job, outcome fifo.Outcome, err error) {
	t, bad := readTask(job.Payload)
	if bad != nil {
		return
	}
	group, bad := groupFor(job.Queue, job.GroupID, t)
	if bad != nil {
		return
	}
	word := outcome.String()
	if (outcome == fifo.Retried || outcome == fifo.Buried) && isDied(err) {
		word = "found-" + word
	}
	book.write(evSettled, group, job.ID, job.Attempt(), 0, word)
}

const (
	watchEvery = 20 * time.Millisecond
	// stall is how long this process has to be kept from running for that to be logged. It is well below the time
	// between a worker's giving up and the server's.
	stall = 300 * time.Millisecond
)

// watchStalls logs when the process did not get to run: it was stopped, or the machine has too much to do. What happens
// then is no fault of the queue's.
func watchStalls(book *journal) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for last := now(); ; {
		<-tick.C
		at := now()
		if gap := at - last; gap > int64(stall) {
			book.write(evStall, 0, 0, 0, gap, "-")
		}
		last = at
	}
}

// A gate holds slow handlers back while the harness wants some to run.
type gate struct{ closed atomic.Pointer[chan struct{}] } // nil: open

// shut makes wait wait.
func (g *gate) shut() {
	closed := make(chan struct{})
	g.closed.CompareAndSwap(nil, &closed)
}

// shutNow reports whether it is shut.
func (g *gate) shutNow() bool { return g.closed.Load() != nil }

// lift lets all through.
func (g *gate) lift() {
	if closed := g.closed.Swap(nil); closed != nil {
		close(*closed)
	}
}

// wait waits for lift, at most as long as limit, or until ctx is done.
func (g *gate) wait(ctx context.Context, limit time.Duration) {
	if closed := g.closed.Load(); closed != nil {
		waited(ctx, *closed, limit)
	}
}
