package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// tenants says that a group belongs to the share that its id has before "/".
func tenants(ids []string) []string {
	shares := make([]string, len(ids))
	for i, id := range ids {
		shares[i], _, _ = strings.Cut(id, "/")
	}
	return shares
}

// groupsOf returns n groups of a tenant.
func groupsOf(tenant string, n int) []Candidate {
	cs := make([]Candidate, n)
	for i := range cs {
		cs[i] = Candidate{Key: group(fmt.Sprintf("%s/%05d", tenant, i)), ID: 1, share: tenant}
	}
	return cs
}

// A shift is lanes at work, on groups that never run out of jobs.
type shift struct {
	turns *Turns
	takes map[string]time.Duration // a job, by tenant
	alone map[string]bool          // whose jobs run by themselves
	n     int                      // lanes

	mu   sync.Mutex
	done map[string]time.Duration // so far
}

func (s *shift) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = make(map[string]time.Duration)
}

// run works for a while, and returns the part of a tenant in the lanes' time.
func (s *shift) run(t *testing.T, tenant string, long time.Duration) float64 {
	t.Helper()
	s.begin()
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	var lanes sync.WaitGroup
	for range s.n {
		lanes.Go(func() {
			seat(ctx, s.turns, func(u *Turn) Outcome {
				time.Sleep(s.takes[u.share])
				s.mu.Lock()
				defer s.mu.Unlock()
				s.done[u.share] += s.takes[u.share]
				return Outcome{Finished: 1, More: true, NoCompany: s.alone[u.share]}
			})
		})
	}
	lanes.Wait()
	all := time.Duration(0)
	for _, d := range s.done {
		all += d
	}
	return float64(s.done[tenant]) / float64(all)
}

// seat works one turn after the other, with its company, until the context ends.
func seat(ctx context.Context, turns *Turns, work func(*Turn) Outcome) {
	for turn := turns.Next(ctx); turn != nil; {
		all := turn.All()
		var outcomes []Outcome
		for _, u := range all {
			outcomes = append(outcomes, work(u))
		}
		var next *Turn
		if ctx.Err() == nil {
			var stay bool
			next, stay = turns.Swap(turn, outcomes[0].More)
			if next == nil && stay && len(all) == 1 && turns.Again(turn, outcomes[0]) {
				continue
			}
		}
		if next == nil {
			turns.Free(turn.Queue)
		}
		for i, u := range all {
			turns.Done(u, outcomes[i])
		}
		if turn = next; next == nil && ctx.Err() == nil {
			turn = turns.Next(ctx)
		}
	}
}

// shared returns Turns of a queue whose groups belong to tenants.
func shared(lanes int, weights map[string]int) *Turns {
	turns := NewTurns(1000)
	turns.SetConcurrency(lanes)
	turns.SetShares(queue, Shares{Of: tenants, Weights: weights})
	return turns
}

// Two tenants that want all lanes get as much of them, by the lanes' time, as their weights say: however many groups
// each has, however long its jobs are.
func TestSharesOfLanes(t *testing.T) {
	const job = 10 * time.Millisecond
	type row struct {
		lanes, many, few int
		jobs             [2]time.Duration
		weights          map[string]int
		batch            int
		alone            map[string]bool
		want             float64 // of the few
	}
	pgtest.OverAll(t, map[string]row{
		"many groups":        {lanes: 4, many: 900, few: 10, want: 0.5},
		"one lane":           {lanes: 1, many: 900, few: 2, want: 0.5},
		"one group":          {lanes: 1, many: 900, few: 1, want: 0.5},
		"long jobs":          {lanes: 4, many: 900, few: 50, jobs: [2]time.Duration{time.Second, job}, want: 0.5},
		"long and one group": {lanes: 1, many: 900, few: 1, jobs: [2]time.Duration{time.Second, job / 5}, want: 0.5},
		"short jobs":         {lanes: 4, many: 900, few: 10, jobs: [2]time.Duration{job / 5, job}, want: 0.5},
		"weights":            {lanes: 4, many: 900, few: 20, weights: map[string]int{"few": 3}, want: 0.75},
		"more for many":      {lanes: 4, many: 900, few: 20, weights: map[string]int{"many": 9}, want: 0.1},
		"batches":            {lanes: 4, many: 900, few: 80, batch: 10, want: 0.5},
		"alone": {
			lanes: 1, many: 900, few: 80, batch: 10, jobs: [2]time.Duration{5 * job, 5 * job},
			alone: map[string]bool{"many": true}, want: 0.5,
		},
		"wants less": {lanes: 10, many: 900, few: 2, want: 0.2},
	}, func(t *testing.T, c row) {
		bubble(t, func(t *testing.T) {
			turns := shared(c.lanes, c.weights)
			turns.SetBatch(queue, Batch{Groups: c.batch})
			turns.Offer(groupsOf("many", c.many))
			turns.Offer(groupsOf("few", c.few))
			takes := map[string]time.Duration{"many": job, "few": job}
			if c.jobs[0] > 0 {
				takes["many"], takes["few"] = c.jobs[0], c.jobs[1]
			}
			s := &shift{turns: turns, takes: takes, alone: c.alone, n: c.lanes}
			require.InDelta(t, c.want, s.run(t, "few", 100*time.Second), 0.05)
		})
	})
}

// A tenant that was idle, or kept one lane of many busy, has saved nothing up.
func TestShareThatComesBack(t *testing.T) {
	pgtest.OverAll(t, map[string]int{"idle": 0, "one lane": 1}, func(t *testing.T, busy int) {
		bubble(t, func(t *testing.T) {
			turns := shared(4, nil)
			turns.Offer(groupsOf("many", 900))
			turns.Offer(groupsOf("few", busy))
			takes := map[string]time.Duration{"many": time.Second, "few": time.Second}
			s := &shift{turns: turns, n: 4, takes: takes}
			require.InDelta(t, 0.25*float64(busy), s.run(t, "few", time.Hour), 0.02)
			turns.Offer(groupsOf("few", 50))
			require.InDelta(t, 0.5, s.run(t, "few", time.Minute), 0.05)
		})
	})
}

// Nor has a queue.
func TestQueueThatKeptALaneBusy(t *testing.T) {
	pgtest.OverAll(t, map[string]int{"idle": 0, "one lane": 1}, func(t *testing.T, busy int) {
		bubble(t, func(t *testing.T) {
			turns := NewTurns(1000)
			turns.SetConcurrency(4)
			turns.Offer(of("a", groupsOf("many", 900)))
			turns.Offer(of("b", groupsOf("few", busy)))
			takes := map[string]time.Duration{"many": time.Second, "few": time.Second}
			s := &shift{turns: turns, n: 4, takes: takes}
			time.AfterFunc(time.Hour, func() {
				turns.Offer(of("b", groupsOf("few", 50)))
				s.begin()
			})
			require.InDelta(t, 0.5, s.run(t, "few", time.Hour+time.Minute), 0.05)
		})
	})
}

// A queue with many shares has no more of the lanes than one without.
func TestSharesOfOneQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := shared(4, nil)
		for i := range 20 {
			turns.Offer(groupsOf(fmt.Sprint("tenant", i), 20))
		}
		turns.Offer(of("other", ready(strings.Split(strings.Repeat("x", 30), "")...)))
		for i := range 30 {
			turns.Announce(groups.Key{Queue: "other", GroupID: fmt.Sprint(i)}, 1)
		}
		s := &shift{turns: turns, n: 4, takes: map[string]time.Duration{"": 10 * time.Millisecond}}
		for i := range 20 {
			s.takes[fmt.Sprint("tenant", i)] = 10 * time.Millisecond
		}
		require.InDelta(t, 0.5, s.run(t, "", time.Minute), 0.05)
	})
}

// Shares beyond those that are told apart have their turns all the same, and those that have nothing to do are
// forgotten.
func TestMoreSharesThanAreToldApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := shared(1, nil)
		l := turns.line.row(queue).shares
		for round := range 3 {
			const n = 3*maxShares + 7
			for i := range n {
				turns.Offer(groupsOf(fmt.Sprint(round, " ", i), 1))
			}
			require.Len(t, l.rows, maxShares)
			for range n {
				turn := turns.TryNext()
				require.NotNil(t, turn)
				turns.Done(turn, Outcome{Finished: 1})
				turns.Free(queue)
			}
			require.Nil(t, turns.TryNext())
			require.Zero(t, l.others.working)
			time.Sleep(time.Second)
		}
	})
}

// A share with more groups than there is room for is read on where that was, to the end, and once from the beginning.
func TestRefillGoesOn(t *testing.T) {
	t.Parallel()
	turns := NewTurns(16)
	turns.SetShares(queue, Shares{Of: tenants})
	cs := groupsOf("a", 40)
	behind := func(id string) (rest []Candidate) {
		for _, c := range cs {
			if c.GroupID > id {
				rest = append(rest, c)
			}
		}
		return rest
	}
	var froms, order []string
	turns.Offer(turns.admit(behind(""), &walk{}))
	for l := turns.line.row(queue); len(l.shares.overflowed) > 0; {
		for turn := turns.TryNext(); turn != nil; turn = turns.TryNext() {
			order = append(order, turn.GroupID)
			turns.Done(turn, Outcome{Finished: 1})
			cs = slices.DeleteFunc(cs, func(c Candidate) bool { return c.Key == turn.Key })
		}
		next := turns.rooms.refillOf(l, refill{})
		froms = append(froms, next.from)
		w := &walk{share: next.share, after: next.from}
		turns.Offer(turns.admit(behind(next.from), w))
		turns.rooms.refilled(queue, w, false)
	}
	require.Equal(t, []string{"a/00015", "a/00031", ""}, froms)
	require.Len(t, order, 40)
	require.True(t, slices.IsSorted(order))
}

// All shares together take as much memory as a queue without; each has its part of that, whatever the others have.
func TestRoomOfShares(t *testing.T) {
	t.Parallel()
	turns := NewTurns(64)
	turns.SetShares(queue, Shares{Of: tenants})
	offer := func(tenant string, n int) int {
		return turns.Offer(turns.admit(groupsOf(tenant, n), nil))
	}
	require.Equal(t, 64, offer("many", 1000))
	require.Equal(t, 64, offer("second", 1000), "there was one")
	require.Equal(t, 21, offer("third", 21))
	require.Zero(t, offer("many", 1000))
	turns.Announce(group("many/new"), 1)
	require.Nil(t, turns.known[group("many/new")])
	turns.Announce(group("fourth/new"), 1)
	require.NotNil(t, turns.known[group("fourth/new")])
	require.Len(t, turns.line.row(queue).shares.overflowed, 2)
}
