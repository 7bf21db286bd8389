package fifo_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What was written by hand is listed, and can be got rid of.
func TestVerbsOnUnreadableJobs(t *testing.T) {
	b := newBed(t)
	q := b.q
	for _, set := range []string{
		`failures = '[5]'`, `failures = '5'`, `failures = '{"5": 5}'`, `failures = 'null'`, `run_at = '-infinity'`,
	} {
		for _, verb := range []string{"retry", "delete", "bury"} {
			id := b.send("g", "a")[0]
			b.exec("UPDATE pgfifo.jobs SET " + set)
			job := only(t, b.jobs())
			require.Empty(t, job.Failures)
			require.Zero(t, job.RunAt)
			require.NoError(t, oneJob[verb](promptly(t), q, id), "%s, %s", set, verb)
			for _, dead := range b.deadLetters() {
				require.Equal(t, fifo.KindOperator, b.whyJob(dead.ID).LastFailure.Kind, set)
			}
			b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
		}
	}
	b.ledger.sent = nil
}

// A failure is recorded whatever is there that the library has not written.
func TestFailureBehindWhatIsByHand(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"number": "'5'", "object": `'{"5": 5}'`, "null": "'null'", "string": `'"five"'`,
		"no room": "to_jsonb(ARRAY[repeat('x', 16777000)])",
	}, func(t *testing.T, failures string) {
		b := newBed(t)
		id := b.send("g", nil)[0]
		b.exec("UPDATE pgfifo.jobs SET attempts = 1, failures = " + failures)
		b.work(b.worker(func(context.Context, *fifo.Job) error { return fifo.DeadLetter(errOnPurpose) }))
		dead := only(t, b.deadLetters())
		require.Equal(t, id, dead.ID)
		require.Equal(t, 2, dead.Attempts)
		require.Len(t, dead.Failures, 1)
	})
}

// A row of a group that was written by hand fails no list, no verb, and no claim, whatever it lacks.
func TestGroupsByHand(t *testing.T) {
	pgtest.OverEach(t, []string{
		"job = id, attempt = 1, since = 'infinity'", "job = id, attempt = 1, since = '-infinity'",
		"job = id, attempt = 1, since = '0044-03-15 BC'", "job = id", "attempt = 1",
	}, func(t *testing.T, set string) {
		b := newBed(t)
		id := b.send("g", nil)[0]
		b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'g')")
		holder := pgtest.Conn(t, b.url)
		_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock(4711)")
		require.NoError(t, err)
		b.exec("UPDATE pgfifo.queue_groups g SET session = 4711, token = 1, " + set + " FROM pgfifo.jobs j")
		why := b.why("g")
		require.NotEmpty(t, why.Reason())
		_, err = json.Marshal(why)
		require.NoError(t, err)
		require.NoError(t, holder.Close(t.Context()))
		b.ledger.unordered = true
		b.work(b.worker(nop))
		require.Contains(t, b.ledger.order(), id)
	})
}

// A number that no session has fails no look, which is one for all groups.
func TestSessionThatNobodyHas(t *testing.T) {
	b := newBed(t)
	const lowest = "-9223372036854775808"
	b.send("a", nil)
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id, session, token, job, attempt, since) " +
		"SELECT queue, group_id, " + lowest + ", 1, id, 1, now() FROM pgfifo.jobs")
	holder := pgtest.Conn(t, b.url)
	_, err := holder.Exec(t.Context(), "SELECT pg_advisory_lock("+lowest+")")
	require.NoError(t, err)
	b.send("b", nil)
	r := b.run(b.worker(nop))
	await(t, "the job of the other group", func() bool { return b.count("jobs") == 1 })
	require.NoError(t, holder.Close(t.Context()))
	r.finish()
	require.Empty(t, b.log.lines("trouble with the database"))
}

// So is a job of a group that a message cannot have, in the list of its queue.
func TestVerbsOnAGroupByHand(t *testing.T) {
	b := newBed(t)
	for name, verb := range oneJob {
		b.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', E'a\\u200bb', '')")
		job := only(t, b.jobs())
		require.Equal(t, fifo.Due, b.whyJob(job.ID).State)
		require.NoError(t, verb(t.Context(), b.q, job.ID), name)
		require.ErrorIs(t, verb(t.Context(), b.q.Group(job.GroupID), job.ID), fifo.ErrInvalidID, name)
		b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
	}
}

// A time of an enqueue that Go does not have keeps nobody from his job, nor from those behind it.
func TestVerbsOnInfiniteTimes(t *testing.T) {
	b := newBed(t)
	q := b.q
	year := map[string]int{"infinity": 9999, "-infinity": 1, "0044-03-15 BC": 1} // 1: the zero time
	for at := range year {
		for name, verb := range oneJob {
			b.plant("q", 2, "g")
			b.exec("UPDATE pgfifo.jobs SET run_at = nullif('" + at + "', 'infinity')::timestamptz, " +
				"enqueued_at = '" + at + "'")
			head := b.why("g")
			require.Equal(t, year[at], head.OldestAt.UTC().Year())
			require.Equal(t, year[at], head.Since.UTC().Year())
			require.NotEmpty(t, head.Reason())
			jobs := b.jobs()
			require.Equal(t, year[at], jobs[0].EnqueuedAt.UTC().Year())
			depth, err := q.Measure(t.Context())
			require.NoError(t, err)
			require.Equal(t, year[at], depth.OldestAt.UTC().Year())
			require.Equal(t, year[at], depth.DueSince.UTC().Year())
			upTo, err := q.MeasureUpTo(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, depth, upTo)
			for _, job := range []int64{jobs[1].ID, jobs[0].ID} { // the one behind it first
				require.NoError(t, verb(promptly(t), q, job), "%s, %s", at, name)
				if name == "delete" {
					require.ErrorIs(t, second(q.WhyJob(t.Context(), job)), fifo.ErrJobNotFound)
					continue
				}
				require.Equal(t, year[at], b.whyJob(job).OldestAt.UTC().Year())
			}
			b.deadLetters() // can be read
			b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
		}
	}
}

// A handler can write such a job as JSON.
func TestHandlerOfInfiniteTimes(t *testing.T) {
	b := newBed(t)
	for at, year := range map[string]int{
		"infinity": 9999, "-infinity": 1, "0044-03-15 BC": 1, "0001-01-01 12:00 UTC": 1,
	} {
		b.send("g", nil)
		b.exec("UPDATE pgfifo.jobs SET run_at = nullif('" + at + "', 'infinity')::timestamptz, " +
			"enqueued_at = '" + at + "'")
		var seen fifo.Job
		var err error
		b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
			seen = *job
			_, err = json.Marshal(job)
			return nil
		}))
		require.NoError(t, err)
		require.Equal(t, year, seen.EnqueuedAt.Year())
		require.Equal(t, year == 1, seen.EnqueuedAt.IsZero())
		require.Zero(t, seen.RunAt)
	}
}

// Nor does such a time of a death or of a pause.
func TestInfiniteDeathsAndPauses(t *testing.T) {
	b := newBed(t)
	q := b.q
	for at, year := range map[string]int{"infinity": 9999, "-infinity": 1, "0044-03-15 BC": 1} {
		ids := b.send("g", "1", "2", "3")
		require.NoError(t, q.Bury(t.Context(), ids[0], ""))
		require.NoError(t, q.Bury(t.Context(), ids[1], ""))
		b.exec("UPDATE pgfifo.dead_letters SET died_at = '"+at+"' WHERE id = $1", ids[0])
		letters := b.deadLetters()
		require.Len(t, letters, 2)
		require.Equal(t, year, letters[0].DiedAt.UTC().Year())
		why := b.whyJob(ids[0])
		require.Equal(t, year, why.Since.UTC().Year())
		require.NotEmpty(t, why.Reason())
		require.ErrorIs(t, q.Delete(t.Context(), ids[0]), fifo.ErrJobNotFound, "it is a dead letter")
		b.redrive(q.Group("g"), fifo.Redrive{Letters: named(ids[0]), Headers: fifo.Headers{"a": "b"}})

		for _, paused := range []fifo.Scope{q, q.Group("g")} {
			require.NoError(t, pausing(paused.Pause(t.Context(), "")))
			b.exec("UPDATE pgfifo.pauses SET paused_at = '" + at + "'")
			require.Equal(t, year, only(t, b.pauses()).PausedAt.UTC().Year())
			why := b.why("g")
			require.Equal(t, year, why.Since.UTC().Year())
			require.NotEmpty(t, why.Reason())
			was, _, err := paused.Pause(t.Context(), "again")
			require.NoError(t, err)
			require.True(t, was)
			require.True(t, b.resumes(paused))
		}
		b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
	}
	b.ledger.sent = nil
}
