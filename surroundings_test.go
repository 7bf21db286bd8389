//go:build unix

package pgfifo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

// atWork waits until each of so many processes has begun a job: one that is still starting ends if the server does.
func (s *site) atWork(procs int) {
	s.Helper()
	s.until("every process to work", func() bool {
		workers := make(map[string]bool)
		for _, e := range s.events() {
			workers[e.worker] = true
		}
		return len(workers) == procs
	})
}

// A state is what a server says has been done, and what not, in one snapshot.
type state struct {
	effects, jobs []int64  // job ids; effects in the order in which they were written
	groups        []string // of effects
}

func (s *site) state(url string) (st state) {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), url)
	require.NoError(s, err)
	defer func() { _ = conn.Close(context.Background()) }()
	err = conn.QueryRow(s.Context(), `SELECT ARRAY(SELECT job_id FROM effects ORDER BY n),
		ARRAY(SELECT group_id FROM effects ORDER BY n), ARRAY(SELECT id FROM pgfifo.jobs ORDER BY id)`).
		Scan(&st.effects, &st.groups, &st.jobs)
	require.NoError(s, err)
	return st
}

// byGroup returns the effects of each group.
func (st *state) byGroup() map[string][]int64 {
	groups := make(map[string][]int64)
	for i, g := range st.groups {
		groups[g] = append(groups[g], st.effects[i])
	}
	return groups
}

// all returns what is known of at all: done, or to be done.
func (st *state) all() []int64 { return append(slices.Clone(st.effects), st.jobs...) }

// requireSound checks what holds in every state, whatever was lost before: effects and completions are one commit, and
// every group's effects are in its order, once each.
func (s *site) requireSound(st state) {
	s.Helper()
	require.Empty(s, both(st.effects, st.jobs), "done, and still to be done")
	for group, ids := range st.byGroup() {
		for i := 1; i < len(ids); i++ {
			require.Less(s, ids[i-1], ids[i], "group %s: %v", group, ids)
		}
	}
}

// both returns what is in a and in b.
func both(a, b []int64) []int64 { return pick(a, b, true) }

// minus returns what is in a and not in b.
func minus(a, b []int64) []int64 { return pick(a, b, false) }

func pick(a, b []int64, in bool) (picked []int64) {
	set := make(map[int64]bool, len(b))
	for _, v := range b {
		set[v] = true
	}
	for _, v := range a {
		if set[v] == in {
			picked = append(picked, v)
		}
	}
	return picked
}

// A producer enqueues one message after the other, to eight groups in turn, and goes on through failures.
type producer struct {
	*site
	mu      sync.Mutex
	acked   []int64 // what Enqueue returned
	unknown int     // enqueues that failed after they were sent: each may have been made
	failing bool    // the last one failed
	stop    context.CancelFunc
	ended   chan struct{}
}

func (s *site) produce() *producer {
	ctx, stop := context.WithCancel(s.Context())
	p := &producer{site: s, stop: stop, ended: make(chan struct{})}
	s.Cleanup(p.end)
	go func() {
		defer close(p.ended)
		pause := time.NewTicker(5 * time.Millisecond)
		defer pause.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			// To its end, also when the test has enough: nothing is enqueued behind its back.
			call, done := context.WithTimeout(context.WithoutCancel(ctx), 3*patience)
			ids, err := receipt.IDs(s.client.Enqueue(call, message(fmt.Sprint("g", n%8), task{})))
			done()
			p.mu.Lock()
			p.acked = append(p.acked, ids...)
			p.failing = err != nil
			if err != nil && !pgconn.SafeToRetry(err) {
				p.unknown++
			}
			p.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-pause.C:
			}
		}
	}()
	return p
}

func (p *producer) end() {
	p.stop()
	<-p.ended
}

// down waits until the producer has noticed that the server is gone: nothing is acknowledged then.
func (p *producer) down() (acked []int64) {
	p.Helper()
	p.until("the producer to fail", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		acked = slices.Clone(p.acked)
		return p.failing
	})
	return acked
}

// more waits until so many more messages are acknowledged.
func (p *producer) more(n int) {
	p.Helper()
	want := p.count() + n
	p.within(3*patience, "more enqueues", func() bool { return p.count() >= want })
}

func (p *producer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// A loss is what a crash of the server undid.
type loss struct {
	jobs   []int64 // acknowledged enqueues that are gone
	undone []int64 // effects that were seen and are gone; those of jobs that are there run again
	reused int     // ids of lost jobs that were given out again
}

func (l loss) String() string {
	return fmt.Sprintf("%d acknowledged enqueues lost, %d effects undone, %d ids given out again",
		len(l.jobs), len(l.undone), l.reused)
}

// compare says what was lost, and checks that the rest is a prefix of what was.
func (s *site) compare(acked []int64, before, after state) (l loss) {
	s.Helper()
	s.requireSound(before)
	s.requireSound(after)
	there := after.all()
	l.jobs, l.undone = minus(acked, there), minus(before.effects, after.effects)
	if len(l.jobs) > 0 {
		require.Less(s, slices.Max(there), slices.Min(l.jobs), "an enqueue was lost, and a later one was not")
	}
	now := after.byGroup()
	for group, was := range before.byGroup() {
		is := now[group]
		n := min(len(was), len(is))
		require.True(s, slices.Equal(was[:n], is[:n]), "group %s: %v, and then %v", group, was, is)
	}
	return l
}

// goOn has the producer and the workers go on to the end, and checks what is there then.
func (s *site) goOn(p *producer, procs []*process, before int, after state, l *loss) {
	s.Helper()
	p.more(30)
	p.end()
	s.drained()
	s.stop(procs...)
	s.requireAll(p, before, after, l)
}

// requireAll checks that in the end everything was done once and in order: what survived, and what came later. Enqueues
// whose answers were lost may be there.
func (s *site) requireAll(p *producer, before int, after state, l *loss) {
	s.Helper()
	end := s.state(s.URL)
	s.requireSound(end)
	require.Empty(s, end.jobs)
	later := p.acked[before:]
	l.reused = len(both(later, l.jobs))
	require.Empty(s, minus(append(after.all(), later...), end.effects), "neither done nor there")
	extra := minus(minus(end.effects, after.all()), later)
	require.LessOrEqual(s, len(extra), p.unknown, "jobs that nobody enqueued: %v", extra)
	dead, err := s.client.DeadLetters(s.Context(), fifo.Letters{})
	require.NoError(s, err)
	require.Empty(s, dead)
}
