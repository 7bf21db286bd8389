package fifo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
)

// A ledger records what the handlers of a test do, and what must never happen: two jobs of one group at once, a job
// before one of its group with a lower id, a job that succeeds twice.
type ledger struct {
	mu      sync.Mutex
	running map[groups.Key]int64
	last    map[groups.Key]int64
	starts  []*fifo.Job
	settled []settlement
	sent    []int64
	done    []int64
	faults  []string

	overlaps  bool // the test ends connections: a handler may overlap its successor until it learns of that
	unordered bool // the test makes lower ids appear late
}

type settlement struct {
	job     *fifo.Job
	outcome fifo.Outcome
	err     error
}

func newLedger() *ledger {
	return &ledger{running: make(map[groups.Key]int64), last: make(map[groups.Key]int64)}
}

// record is a handler that enters in the ledger what h does.
func (l *ledger) record(h fifo.Handler) fifo.Handler {
	return func(ctx context.Context, job *fifo.Job) error {
		l.start(job)
		defer l.end(job)
		return h(ctx, job)
	}
}

func (l *ledger) start(job *fifo.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := job.Group()
	if other, ok := l.running[key]; ok && !l.overlaps {
		l.fault("%v: job %d started beside %d", key, job.ID, other)
	}
	if job.ID < l.last[key] && !l.unordered {
		l.fault("%v: job %d started after %d", key, job.ID, l.last[key])
	}
	l.running[key], l.last[key] = job.ID, job.ID
	l.starts = append(l.starts, job)
}

func (l *ledger) end(job *fifo.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, job.Group())
}

// started returns how many attempts have begun.
func (l *ledger) started() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts)
}

// settle is Hooks.Settled.
func (l *ledger) settle(_ context.Context, job *fifo.Job, outcome fifo.Outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled = append(l.settled, settlement{job, outcome, err})
	if outcome != fifo.Succeeded {
		return
	}
	if slices.Contains(l.done, job.ID) {
		l.fault("%v: job %d succeeded twice", job.Group(), job.ID)
	}
	l.done = append(l.done, job.ID)
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// read returns something of each entry of a list of the ledger's.
func read[E, V any](l *ledger, list *[]E, value func(E) V) []V {
	l.mu.Lock()
	defer l.mu.Unlock()
	values := make([]V, len(*list))
	for i, entry := range *list {
		values[i] = value(entry)
	}
	return values
}

// order returns the ids of the jobs in the order in which their handlers started.
func (l *ledger) order() []int64 {
	return read(l, &l.starts, func(job *fifo.Job) int64 { return job.ID })
}

// payloads returns the payloads in the order in which the handlers started.
func (l *ledger) payloads() []string {
	return read(l, &l.starts, func(job *fifo.Job) string { return string(job.Payload) })
}

// outcomes returns what became of the attempts, in order.
func (l *ledger) outcomes() []fifo.Outcome {
	return read(l, &l.settled, func(s settlement) fifo.Outcome { return s.outcome })
}

// errs returns why, in the same order.
func (l *ledger) errs() []error {
	return read(l, &l.settled, func(s settlement) error { return s.err })
}

// of returns what became of the attempts in one group, why, and of which jobs they were.
func (l *ledger) of(group string) (outcomes []fifo.Outcome, errs []error, order []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.settled {
		if s.job.GroupID == group {
			outcomes, errs = append(outcomes, s.outcome), append(errs, s.err)
		}
	}
	for _, job := range l.starts {
		if job.GroupID == group {
			order = append(order, job.ID)
		}
	}
	return outcomes, errs, order
}

// count returns how many attempts ended so; the caller has the lock.
func (l *ledger) count(outcome fifo.Outcome) (n int) {
	for _, s := range l.settled {
		if s.outcome == outcome {
			n++
		}
	}
	return n
}
