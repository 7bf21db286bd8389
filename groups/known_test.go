package groups

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a pauseWatch trusts is an answer, and young; one lane asks at a time.
func TestPauseWatch(t *testing.T) {
	t.Parallel()
	w := newPauseWatch()
	now := time.Now()
	at := func(d time.Duration) (trusted, ask bool) { return w.trusts("q", now.Add(d)) }
	is := func(d time.Duration, trusted, ask bool) {
		t.Helper()
		gotTrusted, gotAsk := at(d)
		require.Equal(t, [2]bool{trusted, ask}, [2]bool{gotTrusted, gotAsk})
	}
	is(0, false, true)
	is(0, false, false) // somebody asks already
	w.saw("q", false, now)
	is(1, true, false)
	is(pauseTrust/2+1, true, true) // before it is too old
	is(pauseTrust/2+2, true, false)
	is(pauseTrust-1, true, false)
	is(pauseTrust, false, false)
	is(pauseTrust+2, false, true) // the answer did not come
	trusted, ask := w.trusts("other", now)
	require.False(t, trusted)
	require.True(t, ask)

	w.saw("q", false, now.Add(-time.Hour)) // an old answer that comes late
	is(1, true, false)
	w.saw("q", true, now)
	is(1, false, false)
	w.saw("q", false, now.Add(-pauseTrust))
	is(1, false, false)
	require.Greater(t, pauseWait, 2*pauseTrust, "Pause waits for longer than anybody trusts")
}

// Turns trust nothing at first, then what one claim was told; the count of jobs goes down with every claim, and is asked
// for again before it is used up.
func TestLeanClaims(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(20, "a")
	l := s.lane()
	turns := roomyTurns()
	turns.Offer(ready("a"))
	turn := turns.TryNext()
	var lean int
	var aheads []int
	h, _, err := l.Step(t.Context(), nil, turn)
	require.NoError(t, err)
	for id := int64(1); ; id++ {
		require.NotNil(t, h)
		require.Equal(t, id, h.ID)
		require.Equal(t, id < 20, h.More, "job %d", id)
		aheads = append(aheads, turn.ahead)
		if turn.known {
			lean++
		}
		next := turn
		if id == 20 {
			next = nil
		} else {
			turns.pauses.saw(queue, false, time.Now()) // however slow the machine is
			require.True(t, turns.Again(turn, Outcome{Finished: id, More: true}))
		}
		h, _, err = l.Step(t.Context(), succeed(h), next)
		require.NoError(t, err)
		if next == nil {
			break
		}
	}
	require.Equal(t, []int{16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 3, 2, 1, 0}, aheads)
	require.Equal(t, 17, lean)
}

// A count that is wrong, because others took the jobs or brought new ones, costs a claim that finds nothing, or one more
// look; no job is skipped.
func TestLeanClaimOfAnEmptiedGroup(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(5, "a")
	l := s.lane()
	turns := roomyTurns()
	turns.Offer(ready("a"))
	turn := turns.TryNext()
	h, _, err := l.Step(t.Context(), nil, turn)
	require.NoError(t, err)
	require.Equal(t, 4, turn.ahead)
	s.exec("DELETE FROM pgfifo.jobs WHERE id > 1")
	turns.pauses.saw(queue, false, time.Now())
	require.True(t, turns.Again(turn, Outcome{Finished: 1, More: true}))
	require.True(t, turn.known)
	h, settled, err := l.Step(t.Context(), succeed(h), turn)
	require.NoError(t, err)
	require.True(t, settled)
	require.Nil(t, h)
	require.Zero(t, turn.ahead)
	turns.Done(turn, Outcome{Missed: true})
	s.enqueue(2, "a")
	turns.Offer(ready("a"))
	turn = turns.TryNext()
	require.False(t, turn.known, "which asks")
	h, _, err = l.Step(t.Context(), nil, turn)
	require.NoError(t, err)
	require.Equal(t, int64(6), h.ID)
	require.True(t, h.More)
}

// A claim that trusts no pauses finds what another finds, in every state of the head.
func TestLeanClaimTellsTheSame(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		"SELECT 1", "UPDATE pgfifo.jobs SET attempts = 2, max_attempts = 7 WHERE id = 1", "DELETE FROM pgfifo.jobs",
		"UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE id = 1", "UPDATE pgfifo.jobs SET payload = '\\x00ff' WHERE id = 1",
		"UPDATE pgfifo.jobs SET run_at = '2020-01-01' WHERE id = 1", "DELETE FROM pgfifo.jobs WHERE id = 1",
	} {
		s := newStage(t)
		s.enqueue(3, "a")
		s.exec(change)
		l := s.lane()
		full, _, err := l.Step(t.Context(), nil, &Turn{Key: group("a")})
		require.NoError(t, err)
		s.end(l)
		lean, _, err := l.Step(t.Context(), nil, &Turn{Key: group("a"), known: true, ahead: 3})
		require.NoError(t, err)
		require.Equal(t, full == nil, lean == nil, change)
		if full == nil {
			continue
		}
		require.Equal(t, full.DueIn > 0, lean.DueIn > 0)
		for _, h := range []*Hold{full, lean} {
			h.Turn, h.lastXID, h.groupXID, h.DueIn = nil, 0, 0, 0 // which differ
		}
		require.Equal(t, full.Held, lean.Held, change)
	}
}

// Jobs of a group or a queue that is paused in full flow: no claim that began after Pause returned gets one.
func TestPauseInFullFlow(t *testing.T) {
	t.Parallel()
	for _, key := range []Key{group("a"), {Queue: queue}} {
		for _, batch := range []Batch{{}, {Jobs: 5}, {Groups: 3}} {
			t.Run(key.String()+strconv.Itoa(batch.Jobs)+strconv.Itoa(batch.Groups), func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.enqueue(3000, "a", "b", "c")
				admin, _ := s.admin()
				turns := roomyTurns()
				turns.SetBatch(queue, batch)
				turns.Offer(ready("a", "b", "c"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var paused atomic.Bool
				var late, worked, lean, tail atomic.Int64
				var lanes sync.WaitGroup
				for range 3 {
					l := s.lane()
					lanes.Go(func() { s.flow(ctx, l, turns, key, &paused, &late, &worked, &lean, &tail) })
				}
				s.until(func() bool { return worked.Load() > 100 })
				require.NoError(t, admin.Pause(t.Context(), key, ""))
				paused.Store(true)
				s.until(func() bool { return tail.Load() > 20 })
				cancel()
				lanes.Wait()
				require.Zero(t, late.Load())
				if batch.Groups < 2 {
					require.Positive(t, lean.Load(), "it was not trusted at all")
				}
				require.Positive(t, one[int](s, "SELECT count(*) FROM pgfifo.jobs WHERE group_id = 'a'"))
			})
		}
	}
}

// flow works jobs, and counts those of the paused key whose claim began after Pause had returned.
func (s *stage) flow(
	ctx context.Context, l *Lane, turns *Turns, key Key, paused *atomic.Bool, late, worked, lean, tail *atomic.Int64,
) {
	bg := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		after := paused.Load() // before the turn is lent
		turn := turns.Next(ctx)
		if turn == nil {
			return
		}
		if after {
			tail.Add(1)
		}
		if turn.known {
			lean.Add(1)
		}
		claim := append([]*Turn{turn}, turn.With...)
		h, _, err := l.Step(bg, nil, turn)
		if err != nil {
			s.Error(err)
			return
		}
		var calls []Call
		outcome := Outcome{More: true}
		if h != nil && !h.Paused {
			for _, held := range append([]Held{h.Held}, h.Rest...) {
				if after && (key.GroupID == "" || held.Key == key) {
					late.Add(1)
				}
				worked.Add(1)
				calls = append(calls, succeed(&Hold{Held: held})...)
			}
		}
		if _, _, err := l.Step(bg, calls, nil); err != nil {
			s.Error(err)
			return
		}
		for _, t := range claim {
			turns.Done(t, outcome)
		}
	}
}
