package fifo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// What was written by hand is listed, and can be got rid of.
func TestVerbsOnUnreadableJobs(t *testing.T) {
	b := newBed(t)
	q := b.client.Queue("q")
	for _, set := range []string{
		`failures = '[5]'`, `failures = '5'`, `failures = '{"5": 5}'`, `failures = 'null'`, `run_at = '-infinity'`,
	} {
		for _, verb := range []string{"retry", "delete", "bury"} {
			id := b.send("g", "a")[0]
			b.exec("UPDATE pgfifo.jobs SET " + set)
			jobs, err := q.Jobs(t.Context(), fifo.Page{})
			require.NoError(t, err)
			require.Len(t, jobs, 1)
			require.Empty(t, jobs[0].Failures)
			require.Zero(t, jobs[0].RunAt)
			require.NoError(t, oneJob[verb](promptly(t), q, id), "%s, %s", set, verb)
			for _, dead := range b.deadLetters() {
				why, err := q.WhyJob(t.Context(), dead.ID)
				require.NoError(t, err)
				require.Equal(t, fifo.KindOperator, why.LastFailure.Kind, set)
			}
			b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
		}
	}
	b.ledger.sent = nil
}

// A time of an enqueue that Go does not have keeps nobody from his job, nor from those behind it.
func TestVerbsOnInfiniteTimes(t *testing.T) {
	b := newBed(t)
	q := b.client.Queue("q")
	year := map[string]int{"infinity": 9999, "-infinity": 1} // 1: the zero time
	for at := range year {
		for name, verb := range oneJob {
			b.plant("q", 2, "g")
			b.exec("UPDATE pgfifo.jobs SET run_at = nullif('" + at + "', 'infinity')::timestamptz, " +
				"enqueued_at = '" + at + "'")
			head := b.why("g")
			require.Equal(t, year[at], head.OldestAt.UTC().Year())
			require.Equal(t, year[at], head.Since.UTC().Year())
			require.NotEmpty(t, head.Reason())
			jobs, err := q.Jobs(t.Context(), fifo.Page{})
			require.NoError(t, err)
			require.Equal(t, year[at], jobs[0].EnqueuedAt.UTC().Year())
			for _, measure := range []func() (fifo.Depth, error){
				func() (fifo.Depth, error) { return q.Measure(t.Context()) },
				func() (fifo.Depth, error) { return q.MeasureUpTo(t.Context(), 0) },
			} {
				depth, err := measure()
				require.NoError(t, err)
				require.Equal(t, year[at], depth.OldestAt.UTC().Year())
				require.Equal(t, year[at], depth.DueSince.UTC().Year())
			}
			for _, job := range []int64{jobs[1].ID, jobs[0].ID} { // the one behind it first
				require.NoError(t, verb(promptly(t), q, job), "%s, %s", at, name)
				why, err := q.WhyJob(t.Context(), job)
				if name == "delete" {
					require.ErrorIs(t, err, fifo.ErrJobNotFound)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, year[at], why.OldestAt.UTC().Year())
			}
			_, err = q.DeadLetters(t.Context(), fifo.Letters{})
			require.NoError(t, err)
			b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
		}
	}
}

// Nor does such a time of a death or of a pause.
func TestInfiniteDeathsAndPauses(t *testing.T) {
	b := newBed(t)
	q := b.client.Queue("q")
	for at, year := range map[string]int{"infinity": 9999, "-infinity": 1} {
		ids := b.send("g", "1", "2", "3")
		require.NoError(t, q.Bury(t.Context(), ids[0], ""))
		require.NoError(t, q.Bury(t.Context(), ids[1], ""))
		b.exec("UPDATE pgfifo.dead_letters SET died_at = '"+at+"' WHERE id = $1", ids[0])
		letters := b.deadLetters()
		require.Len(t, letters, 2)
		require.Equal(t, year, letters[0].DiedAt.UTC().Year())
		why, err := q.WhyJob(t.Context(), ids[0])
		require.NoError(t, err)
		require.Equal(t, year, why.Since.UTC().Year())
		require.NotEmpty(t, why.Reason())
		require.ErrorIs(t, q.Delete(t.Context(), ids[0]), fifo.ErrJobNotFound, "it is a dead letter")
		_, _, err = q.Group("g").Redrive(t.Context(), fifo.Redrive{
			Letters: fifo.Letters{IDs: ids[:1]}, Headers: fifo.Headers{"a": "b"},
		})
		require.NoError(t, err)

		for _, paused := range []fifo.Scope{q, q.Group("g")} {
			require.NoError(t, pausing(paused.Pause(t.Context(), "")))
			b.exec("UPDATE pgfifo.pauses SET paused_at = '" + at + "'")
			pauses, err := b.client.Pauses(t.Context())
			require.NoError(t, err)
			require.Equal(t, year, only(t, pauses).PausedAt.UTC().Year())
			why := b.why("g")
			require.Equal(t, year, why.Since.UTC().Year())
			require.NotEmpty(t, why.Reason())
			was, _, err := paused.Pause(t.Context(), "again")
			require.NoError(t, err)
			require.True(t, was)
			resumed, err := paused.Resume(t.Context())
			require.NoError(t, err)
			require.True(t, resumed)
		}
		b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
	}
	b.ledger.sent = nil
}
