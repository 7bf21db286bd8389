package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A group is left alone for longer each time, also if jobs wait behind the one that is refused, and lanes try it again
// at once; and if other workers try it, too.
func TestTroubleWithJobsBehind(t *testing.T) {
	turns := newTurns(t, ready("a")...)
	turn := turns.TryNext()
	for n := range 3 {
		require.True(t, turns.Again(turn, Outcome{Finished: 1, More: true}), "it will not be")
		turns.Done(turn, Outcome{Trouble: true})
		require.Equal(t, n+1, turn.trouble.n)
		require.Nil(t, turns.TryNext())
		turn.at = time.Now()
		turns.Due()
		require.Same(t, turn, turns.TryNext())
	}
	for range 2 {
		turns.Done(turn, Outcome{Missed: true})
		turn = looked(t, turns)
		require.Equal(t, 3, turn.trouble.n, "a miss may be of that trouble's own making")
	}
	turns.Done(turn, Outcome{Trouble: true})
	require.Equal(t, 4, turn.trouble.n)
	turn.at = time.Now()
	turns.Due()
	turns.Done(turns.TryNext(), Outcome{Finished: 1, More: true})
	turns.Done(turns.TryNext(), Outcome{Trouble: true})
	require.Equal(t, 1, turn.trouble.n, "one of its jobs has been finished")
}

// So it is where all claims behind a trouble are missed until the scout has freed what that has left behind.
func TestTroubleWithMissesBetween(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		turns.Offer(ready("a"))
		turn := turns.TryNext()
		begin := time.Now()
		for range tuning.Many {
			turns.Done(turn, Outcome{Trouble: true})
			untilTried(t, turns, turn)
			turns.Done(turn, Outcome{Missed: true})
			turn = looked(t, turns)
		}
		require.Greater(t, time.Since(begin), tuning.Long)
	})
}

// looked has the scout find that the group which is watched is free, and takes it.
func looked(t *testing.T, turns *Turns) *Turn {
	t.Helper()
	_, keys := turns.watched.holders(turns.poll)
	require.Len(t, keys, 1, "it is not watched")
	done := turns.Recheck(keys)
	turns.Offer(ready(keys[0].GroupID))
	done()
	turn := turns.TryNext()
	require.Equal(t, keys[0], turn.Key)
	return turn
}

// So it is if each try takes long, because the handler does.
func TestTroubleBehindSlowHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		turns.Offer(ready("a"))
		turn := turns.TryNext()
		for n := range tuning.Many {
			time.Sleep(tuning.Few * tuning.Long)
			turns.Done(turn, Outcome{Trouble: true})
			require.Equal(t, troubleDelay(n+1), untilTried(t, turns, turn))
		}
	})
}

// untilTried lets time pass until the group is in line again, takes it, and returns how long that took.
func untilTried(t *testing.T, turns *Turns, turn *Turn) time.Duration {
	t.Helper()
	begin := time.Now()
	for wait := turns.Due(); wait >= 0; wait = turns.Due() {
		time.Sleep(wait)
	}
	require.Same(t, turn, turns.TryNext())
	return time.Since(begin)
}

// longTrouble returns Turns with a lane that has a group which has been in trouble for an hour.
func longTrouble(t *testing.T) (*Turns, *Turn) {
	t.Helper()
	turns := roomyTurns()
	turns.Offer(ready("a"))
	turn := turns.TryNext()
	for begin := time.Now(); time.Since(begin) < time.Hour; {
		turns.Done(turn, Outcome{Trouble: true})
		require.LessOrEqual(t, untilTried(t, turns, turn), tuning.Long)
	}
	return turns, turn
}

// Somebody else has mended a group and works it, or it was purged: that is forgotten within minutes, however long the
// trouble was.
func TestTroubleIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns, turn := longTrouble(t)
		turns.Done(turn, Outcome{Missed: true})
		time.Sleep(2 * tuning.Long)
		turn = looked(t, turns)
		turns.Done(turn, Outcome{Trouble: true})
		require.Equal(t, tuning.Slow, untilTried(t, turns, turn))

		turns, turn = longTrouble(t)
		turns.Done(turn, Outcome{Missed: true})
		turns.Recheck([]groups.Key{turn.Key})() // it has no jobs
		turns.Announce(turn.Key, turn.head+1)
		turn = turns.TryNext()
		turns.Done(turn, Outcome{Trouble: true})
		require.Equal(t, tuning.Slow, untilTried(t, turns, turn))
	})
}

// A notice to a group in trouble lets it be tried soon: it may have been mended.
func TestNoticeEndsARest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns, turn := longTrouble(t)
		turns.Done(turn, Outcome{Trouble: true})
		turns.Announce(turn.Key, turn.head+5)
		require.LessOrEqual(t, untilTried(t, turns, turn), tuning.Wait)
		turns.Done(turn, Outcome{Finished: turn.head, More: true})
		require.Same(t, turn, turns.TryNext())

		turns, turn = longTrouble(t)
		turns.Announce(turn.Key, 0) // while a lane has it
		turns.Done(turn, Outcome{Trouble: true})
		require.LessOrEqual(t, untilTried(t, turns, turn), tuning.Wait)
	})
}

// A group in trouble to which somebody enqueues all the time is not tried all the time.
func TestNoticesDuringTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		turns.Offer(ready("a"))
		turn := turns.TryNext()
		turns.Done(turn, Outcome{Trouble: true})
		tries := 0
		for id := range int64(time.Hour / tuning.Rest) {
			turns.Announce(turn.Key, id+2)
			time.Sleep(tuning.Rest)
			turns.Due()
			if got := turns.TryNext(); got != nil {
				turns.Announce(turn.Key, 1)
				turns.Done(got, Outcome{Trouble: true})
				tries++
			}
		}
		require.InDelta(t, 2*time.Hour/tuning.Long, tries, 2*tuning.Many)
	})
}

// A job that waits for its time after trouble is left to wait for it, unless a notice tells of one before it.
func TestDelayAfterTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns, turn := longTrouble(t)
		turns.Done(turn, Outcome{DueIn: time.Hour, More: true})
		turns.Announce(turn.Key, turn.head+1)
		require.Equal(t, time.Hour, turns.Due())
		turns.Offer(ready("a")) // RetryNow, of which a look tells
		require.Same(t, turn, turns.TryNext())
		turns.Done(turn, Outcome{DueIn: time.Hour, More: true})
		turns.Announce(turn.Key, 0)
		require.Same(t, turn, turns.TryNext())
	})
}
