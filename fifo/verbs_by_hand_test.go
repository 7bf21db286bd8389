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
