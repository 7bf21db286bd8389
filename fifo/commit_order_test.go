package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

func commitOrder(c *fifo.Config) { c.CommitOrder = true }

// waiters returns how many sessions of the database wait for an advisory lock.
func (b *bed) waiters() int {
	return query[int](b, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
}

// The second producer of a group gets its id when the first has ended, whichever way; other groups' don't wait. A group
// whose id looks as if it was drawn for an Ungrouped message is one as well.
func TestCommitOrder(t *testing.T) {
	ends := map[string]string{"commit": "g", "undo": ownAlike}
	pgtest.OverNamed(t, ends, func(t *testing.T, end string, group string) {
		b := newBed(t, commitOrder)
		m := fifo.Message{Queue: "q", GroupID: group, Payload: "first"}
		first := producers["bun.Tx"](b)
		first.send(m)
		_, err := first.enqueue(m) // does not wait for itself
		require.NoError(t, err)

		m.Payload = "second"
		result := beside(func() error { return second(b.client.Enqueue(t.Context(), m)) })
		await(t, "the second producer to wait", func() bool { return b.waiters() == 1 })
		m.Payload = "first"
		_, err = first.enqueue(m)
		require.NoError(t, err)
		b.receipts(fifo.Message{Queue: "q", GroupID: "h"}, fifo.Message{Queue: "r", GroupID: group})
		want := []string{"second"}
		if end == "commit" {
			require.NoError(t, first.commit())
			want = []string{"first", "first", "first", "second"}
		} else {
			require.NoError(t, first.undo())
		}
		require.NoError(t, receive(t, result, "the second producer"))
		jobs := b.jobsOf(b.q.Group(group))
		for i, job := range jobs {
			require.Equal(t, want[i], string(job.Payload))
			require.False(t, i > 0 && job.EnqueuedAt.Before(jobs[i-1].EnqueuedAt), "its place is behind")
		}
		require.Len(t, jobs, len(want))
	})
}

// The window of a message begins when it is enqueued, and not when it has begun to wait for another one that was rolled
// back. So does a delay, for one that waits for the order of commits.
func TestWaitingIsNoPartOfATime(t *testing.T) {
	pgtest.OverNamed(t, map[string]fifo.Message{
		"SELECT expires - interval '5 min' FROM pgfifo.dedup_ids": deduped("g", "a"),
		"SELECT run_at - interval '5 min' FROM pgfifo.jobs": {
			Queue: "q", GroupID: "g", Delay: 5 * time.Minute,
		},
	}, func(t *testing.T, until string, m fifo.Message) {
		b := newBed(t, commitOrder)
		tx := b.begin()
		b.receiptsIn(tx, m)
		done := beside(func() error { return second(b.client.Enqueue(context.Background(), m)) })
		await(t, "it to wait", func() bool { return b.blocked() == 1 })
		var now time.Time
		since := query[time.Time](b, "SELECT clock_timestamp()")
		await(t, "a second", func() bool {
			now = query[time.Time](b, "SELECT clock_timestamp()")
			return now.Sub(since) > time.Second
		})
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, receive(t, done, "the second"))
		require.True(t, query[time.Time](b, until).After(now))
	})
}

// Whoever enqueues to a group of a schema, by whatever way, locks one key, and that is another one in each schema. In
// the default schema it is what it has always been: releases that run side by side order each other by it.
func TestCommitOrderOfASchema(t *testing.T) {
	b := newBed(t)
	keys := make(map[int64]string)
	for _, schema := range []string{"", "other", `it's "mine"`} {
		require.NoError(t, migrations.Up(t.Context(), b.pool, &migrations.Config{Schema: schema}))
		client := b.open(b.pool, commitOrder, func(c *fifo.Config) { c.Schema = schema })
		q := client.Queue("q")
		message := fifo.Message{Queue: "q", GroupID: "g"}
		sent, err := client.Enqueue(t.Context(), message, message)
		require.NoError(t, err)
		require.NoError(t, q.Group("g").Bury(t.Context(), sent[0].ID, "for the redrive"))
		require.NoError(t, second(client.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: "before"})))
		ident := pgx.Identifier{"pgfifo"}.Sanitize()
		if schema != "" {
			ident = pgx.Identifier{schema}.Sanitize()
		}
		for way, enqueue := range map[string]func(tx pgx.Tx) error{
			"enqueue": func(tx pgx.Tx) error { return second(client.EnqueuePgxTx(t.Context(), tx, message)) },
			"move": func(tx pgx.Tx) error {
				return second(q.Group("before").InPgx(tx).Move(t.Context(), q.Group("g")))
			},
			"redrive": func(tx pgx.Tx) error {
				return second(counted(q.InPgx(tx).Redrive(t.Context(), toTail(fifo.Letters{All: true}))))
			},
			"function": func(tx pgx.Tx) error {
				return second(tx.Exec(t.Context(), "SELECT "+ident+".enqueue('q', 'g', 'x', commit_order => true)"))
			},
		} {
			tx := b.begin()
			require.NoError(t, enqueue(tx), "%q: %s", schema, way)
			var key int64
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT classid::bigint << 32 | objid::bigint FROM pg_locks
				WHERE locktype = 'advisory' AND pid = pg_backend_pid()`).Scan(&key), "%q: %s", schema, way)
			require.NoError(t, tx.Rollback(t.Context()))
			if of, there := keys[key]; there {
				require.Equal(t, of, schema, way)
			}
			keys[key] = schema
		}
	}
	require.Len(t, keys, 3)
	was := query[int64](b, "SELECT hashtextextended('pgfifo q/g', length('q')::bigint)")
	of, there := keys[was]
	require.True(t, there)
	require.Empty(t, of)
}
