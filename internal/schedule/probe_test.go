package schedule

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A ward is lanes that work queue "a", of which everything is down until that is said, and queue "b", which is not.
type ward struct {
	*Turns
	up      bool
	tried   []string    // groups of a, in order
	at      []time.Time // when
	other   int         // jobs of b that were done
	running int         // jobs of a
	most    int
	changes []bool
	hang    map[string]time.Duration // how long a job takes
	missed  map[string]int           // how often a claim misses it
	done    map[string]bool
}

// nurse runs a test with so many groups of a and lanes in a bubble of testing/synctest.
func nurse(t *testing.T, groups, lanes int, test func(*ward)) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		w := &ward{
			Turns: roomyTurns(), hang: map[string]time.Duration{}, missed: map[string]int{}, done: map[string]bool{},
		}
		w.SetConcurrency(lanes)
		w.rooms.limit = 1 << 14
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		var ids []string
		for id := range groups {
			ids = append(ids, fmt.Sprint(id))
		}
		w.Offer(of("a", ready(ids...)))
		go w.Run(ctx)
		for range lanes {
			go w.lane(ctx)
		}
		test(w)
	})
}

// lane works one job after the other. It begins when the test lets time pass.
func (w *ward) lane(ctx context.Context) {
	_ = pause.For(ctx, time.Nanosecond)
	seat(ctx, w.Turns, func(turn *Turn) Outcome { return w.work(ctx, turn) })
}

func (w *ward) work(ctx context.Context, turn *Turn) Outcome {
	id := turn.GroupID
	if turn.Queue == "b" {
		_ = pause.For(ctx, 20*time.Millisecond)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.other++
		return Outcome{Finished: int64(w.other), More: true}
	}
	w.mu.Lock()
	if w.missed[id] > 0 {
		w.missed[id]--
		w.mu.Unlock()
		return Outcome{DueIn: time.Millisecond}
	}
	w.tried, w.at = append(w.tried, id), append(w.at, time.Now())
	w.running++
	w.most = max(w.most, w.running)
	up, takes := w.up, max(w.hang[id], time.Millisecond)
	w.mu.Unlock()
	_ = pause.For(ctx, takes)
	w.mu.Lock()
	w.running--
	if up {
		w.done[id] = true
	}
	w.mu.Unlock()
	if _, changed := w.Answer(turn, up); changed {
		w.mu.Lock()
		w.changes = append(w.changes, !up)
		w.mu.Unlock()
	}
	if up {
		return Outcome{Finished: 1}
	}
	return Outcome{DueIn: time.Second, More: true}
}

// look lets time pass, and returns how many jobs of a were tried meanwhile.
func (w *ward) look(d time.Duration) int {
	n := len(w.tried)
	_ = w.Probed() // its lock makes lanes see what the test has set
	time.Sleep(d)
	synctest.Wait()
	return len(w.tried) - n
}

// A minute's outage: a few groups are tried, and then one after the other at a rate that is bounded, while another
// queue goes on. When it is over, all are tried within the longest pause.
func TestQueueIsProbed(t *testing.T) {
	const groups, lanes = 1000, 10
	nurse(t, groups, lanes, func(w *ward) {
		w.Offer(of("b", ready("1")))
		require.LessOrEqual(t, w.look(100*time.Millisecond), 3*lanes, "those under way when the fifth said so")
		require.Equal(t, []string{"a"}, w.Probed())
		w.most = 0
		n := w.look(time.Minute)
		require.LessOrEqual(t, n, 15)
		require.GreaterOrEqual(t, n, 10, "one every 5 seconds, and more at first")
		require.Equal(t, 1, w.most)
		require.Greater(t, w.other, 2000, "the other queue's jobs")
		require.Equal(t, []bool{true}, w.changes)
		w.up = true
		w.look(MaxPause + time.Second)
		require.Len(t, w.done, groups)
		require.Empty(t, w.Probed())
		require.Equal(t, []bool{true, false}, w.changes)
		require.Zero(t, w.lanes.probes.sick.Load())
	})
}

// A few groups that say so stop nobody, however often they do.
func TestFewSickGroups(t *testing.T) {
	nurse(t, sickGroups-1, 10, func(w *ward) {
		require.Greater(t, w.look(time.Minute), 100)
		require.Empty(t, w.Probed())
		w.up = true
		w.look(2 * time.Second)
		require.Len(t, w.done, sickGroups-1)
	})
}

// One that has success in between says that there is no outage.
func TestSickGroupsBesideAHealthyOne(t *testing.T) {
	turns := newTurns(t)
	turns.Offer(of("a", ready("1", "2", "3", "4", "5", "6", "7")))
	for i := range 7 {
		turn := turns.TryNext()
		probed, changed := turns.Answer(turn, i == 3)
		require.False(t, probed || changed)
		turns.Done(turn, Outcome{DueIn: time.Hour, More: true})
	}
	turns.Offer(of("a", ready("8", "9")))
	probed, changed := turns.Answer(turns.TryNext(), false)
	require.False(t, probed || changed, "that is the fourth since then")
	probed, changed = turns.Answer(turns.TryNext(), false)
	require.True(t, probed && changed)
}

// What was under way when probing began says nothing of the time since.
func TestAnswerThatIsOlderThanTheProbe(t *testing.T) {
	nurse(t, 20, 10, func(w *ward) {
		w.hang["0"], w.hang["1"] = time.Minute, 2*time.Minute
		w.up = true
		w.look(time.Microsecond) // all lanes have begun: the first two, and others that are quick
		w.up = false
		w.look(59 * time.Second)
		w.Offer(of("a", ready("x1", "x2", "x3", "x4", "x5", "x6", "x7")))
		w.look(500 * time.Millisecond)
		require.Equal(t, []string{"a"}, w.Probed())
		w.look(time.Minute)
		require.True(t, w.done["0"])
		require.Equal(t, []string{"a"}, w.Probed())
		require.Equal(t, []bool{true}, w.changes)
	})
}

// A probe that finds nothing to do, and one that hangs, do not keep the next one from beginning.
func TestProbeWithoutAnswer(t *testing.T) {
	nurse(t, 100, 10, func(w *ward) {
		w.look(100 * time.Millisecond)
		require.Equal(t, []string{"a"}, w.Probed())
		for id := range 100 {
			w.missed[fmt.Sprint(id)] = 1
		}
		w.look(time.Minute)
		before := len(w.tried)
		for id := range 100 {
			w.hang[fmt.Sprint(id)] = 10 * time.Minute
		}
		w.look(MaxPause)
		require.Len(t, w.tried, before+1, "it hangs")
		w.hang = map[string]time.Duration{}
		w.up = true
		w.look(probeTime + time.Second)
		require.GreaterOrEqual(t, len(w.done), 99, "another one did not")
	})
}

// A queue that is unavailable again as soon as it has full speed is not probed faster for that.
func TestProbedAgain(t *testing.T) {
	nurse(t, 1000, 1, func(w *ward) {
		for range 5 {
			w.look(time.Minute)
			require.Equal(t, []string{"a"}, w.Probed())
			w.up, w.done = true, map[string]bool{}
			for len(w.done) == 0 {
				w.look(time.Millisecond)
			}
			w.up = false
			require.LessOrEqual(t, w.look(MaxPause/2), sickGroups+1)
			require.Equal(t, []string{"a"}, w.Probed())
		}
	})
}

// A probe has one job, whatever the queue's batch.
func TestProbeIsNoBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		turns.SetBatch("a", Batch{Groups: 10})
		turns.SetBatch("b", Batch{Jobs: 10})
		for _, queue := range []string{"a", "b"} {
			for i := range sickGroups {
				turns.Offer(of(queue, ready(fmt.Sprint(i))))
				turn := turns.TryNext()
				turns.Answer(turn, false)
				turns.Done(turn, Outcome{DueIn: time.Hour, More: true})
			}
			turns.Offer(of(queue, ready("x", "y", "z")))
		}
		require.Equal(t, []string{"a", "b"}, turns.Probed())
		require.Nil(t, turns.TryNext())
		time.Sleep(firstPause)
		for range 2 {
			turn := turns.TryNext()
			require.Empty(t, turn.with)
			require.Equal(t, 1, turn.Request().Jobs)
		}
		require.Nil(t, turns.TryNext())
	})
}
