package fifo_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A roster knows which jobs of each group run, and which have started, as often as they did.
type roster struct {
	mu      sync.Mutex
	running map[string][]int64
	begun   map[string][]start
	most    int
	done    map[int64]int
	alone   int // attempts that nobody could see
}

// A start is that of one attempt. Its mark is made before anybody can claim what is behind, so the transactions of
// marks are in the order of starts, whenever the handlers come to tell.
type start struct{ mark, id int64 }

func newRoster(t *testing.T) *roster {
	r := &roster{running: make(map[string][]int64), begun: make(map[string][]start), done: make(map[int64]int)}
	t.Cleanup(func() { require.Zero(t, r.alone, "started without a mark") })
	return r
}

func (r *roster) handle(b *bed, ctx context.Context, job *fifo.Job, h fifo.Handler) error {
	s, group := start{id: job.ID}, job.GroupID
	err := b.pool.QueryRow(ctx, "SELECT xmin::text::bigint FROM pgfifo.attempt_marks WHERE id = $1", s.id).Scan(&s.mark)
	r.mu.Lock()
	if err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			r.alone++
		}
		r.mu.Unlock()
		return err
	}
	r.begun[group] = append(r.begun[group], s)
	r.running[group] = append(r.running[group], s.id)
	r.most = max(r.most, len(r.running[group]))
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.Index(r.running[group], s.id) // one that was lost may end beside the next attempt
		r.running[group] = slices.Delete(r.running[group], i, i+1)
		if err == nil {
			r.done[s.id]++
		}
	}()
	err = h(ctx, job)
	return err
}

// runs returns the jobs of the group that run, in the order of their ids.
func (r *roster) runs(group string) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.running[group]))
}

// reach waits until these jobs of a group run, and no other.
func (r *roster) reach(t *testing.T, group string, ids ...int64) {
	t.Helper()
	await(t, fmt.Sprint(ids, " of ", group), func() bool { return slices.Equal(r.runs(group), ids) })
}

// starts returns the jobs of the group in the order in which they started, as often as they did.
func (r *roster) starts(group string) (ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.SortedFunc(slices.Values(r.begun[group]), func(x, y start) int {
		return cmp.Compare(x.mark, y.mark)
	}) {
		ids = append(ids, s.id)
	}
	return ids
}

// crowd returns a worker of five lanes that works q. Its handlers are in the roster, and not in the ledger, which
// wants one job of a group at a time.
func (b *bed) crowd(r *roster, batch fifo.Queue, h fifo.Handler, adjust ...func(*fifo.Worker)) *fifo.Worker {
	w := b.bare(slices.Insert(adjust, 0, func(w *fifo.Worker) { w.Concurrency, w.MaxAttempts = 5, 0 }))
	batch.Handler = func(ctx context.Context, job *fifo.Job) error { return r.handle(b, ctx, job, h) }
	w.HandleQueue("q", batch)
	return w
}

// A stop keeps handlers until each of their jobs is let go.
type stop struct {
	mu  sync.Mutex
	ch  map[int64]chan error
	all chan struct{}
}

func newStop() *stop { return &stop{ch: make(map[int64]chan error), all: make(chan struct{})} }

func (s *stop) of(id int64) chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch[id] == nil {
		s.ch[id] = make(chan error, 10)
	}
	return s.ch[id]
}

func (s *stop) handle(ctx context.Context, job *fifo.Job) error {
	select {
	case err := <-s.of(job.ID):
		return err
	case <-s.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
