package fifo_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// durable returns a URL of the database whose sessions wait for the disk, unless something else is said.
func durable(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	q := u.Query()
	q.Set("synchronous_commit", "on")
	u.RawQuery = q.Encode()
	return u.String()
}

// One lane works relaxed queues and another one, in every way, and a trigger tells as what each transaction commits:
// the completions of relaxed queues do not wait, and all else does.
func TestRelaxed(t *testing.T) { overLeases(t, testRelaxed) }

func testRelaxed(t *testing.T, by lease) {
	t.Parallel()
	queues := []string{"plain", "used", "each", "wide", "slice", "partly", "fails", "by hand", "snoozes"}
	b := by.on(bedOn(t, durable(t)), queues...)
	b.exec(`CREATE TABLE commits (n bigint GENERATED ALWAYS AS IDENTITY, queue text, told text);
		CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
			INSERT INTO public.commits (queue, told)
			VALUES (OLD.queue, concat(TG_OP, '' '', current_setting(''synchronous_commit'')));
			RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER tell AFTER UPDATE OR DELETE ON pgfifo.jobs DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION tell()`)
	// synced has the transaction, and says something else of it.
	synced := func(ctx context.Context, job *fifo.Job) error {
		return exec(ctx, job, "SET LOCAL synchronous_commit = on")
	}
	w := b.worker(nop, oneLane)
	relaxed := func(name string, q fifo.Queue, h fifo.Handler) {
		q.Relaxed = true
		if h != nil {
			q.Handler = b.ledger.record(h)
		}
		w.HandleQueue(name, q)
	}
	relaxed("plain", fifo.Queue{}, nop)
	relaxed("used", fifo.Queue{}, synced)
	relaxed("each", fifo.Queue{BatchJobs: 3}, synced)
	relaxed("wide", fifo.Queue{BatchGroups: 3}, synced)
	relaxed("slice", fifo.Queue{
		BatchJobs:    3,
		BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error { return synced(ctx, jobs[0]) },
	}, nil)
	relaxed("partly", fifo.Queue{
		BatchJobs: 3,
		BatchHandler: func(_ context.Context, jobs []*fifo.Job) error {
			if len(jobs) < 3 {
				return nil
			}
			return fifo.BatchError{jobs[1].ID: fifo.DeadLetter(errOnPurpose)}
		},
	}, nil)
	relaxed("fails", fifo.Queue{}, failing(1, errOnPurpose))
	relaxed("by hand", fifo.Queue{}, func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.PgxTx(ctx)
		if err == nil && job.Attempt() == 1 {
			_, err = tx.Conn().Exec(ctx, "COMMIT")
		}
		return err
	})
	snoozed := false // by the only lane
	relaxed("snoozes", fifo.Queue{}, func(context.Context, *fifo.Job) error {
		if snoozed {
			return nil
		}
		snoozed = true
		return fifo.Snooze(time.Millisecond, nil)
	})
	order := []string{"plain", "q", "used", "q", "each", "slice", "partly", "q"}
	for range 3 {
		for _, queue := range order {
			b.sendAll(fifo.Message{Queue: queue, GroupID: "g"})
		}
	}
	for _, group := range []string{"a", "b", "c"} {
		b.sendAll(fifo.Message{Queue: "wide", GroupID: group}, fifo.Message{Queue: "q", GroupID: group})
	}
	for _, queue := range []string{"fails", "by hand", "snoozes"} {
		b.sendAll(fifo.Message{Queue: queue, GroupID: "g"})
	}
	b.run(w)
	b.drained()

	told := query[map[string][]string](b, `SELECT jsonb_object_agg(queue, told)
		FROM (SELECT queue, jsonb_agg(told ORDER BY n) AS told FROM commits GROUP BY queue) c`)
	const done, waits, fails = "DELETE off", "DELETE on", "UPDATE on"
	q := told["q"]
	require.Len(t, q, 12)
	for _, one := range q {
		require.Equal(t, waits, one, "the next one on the same lane")
	}
	delete(told, "q")
	require.Equal(t, map[string][]string{
		"plain": {done, done, done}, "used": {done, done, done}, "each": {done, done, done},
		"slice": {done, done, done}, "wide": {done, done, done},
		"partly": {waits, waits, done}, "fails": {fails, done}, "snoozes": {fails, done}, "by hand": {fails, done},
	}, told)
	after := query[int](b, `SELECT count(*)
		FROM (SELECT queue, lag(told) OVER (ORDER BY n) AS before FROM commits) c
		WHERE queue = 'q' AND before = 'DELETE off'`)
	require.Positive(t, after, "the lane has gone from a relaxed queue to the other")
}
