package pgfifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A function's message is a duplicate of a client's and the other way round, in the queue's window and scope, and
// replaces it if it is to. One of no group is as a client's: its group's id is drawn.
func TestEnqueueFunctionDedup(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *staff) {
		ctx, pool := t.Context(), s.as(s.roles.Producer)
		client := s.client(pool)
		enqueue := func(args string) (r fifo.Receipt) {
			t.Helper()
			require.NoError(t, pool.QueryRow(ctx, s.sql("SELECT * FROM pgfifo.enqueue("+args+")")).Scan(
				&r.ID, &r.Duplicate, &r.Replaced))
			return r
		}
		byClient := func(m fifo.Message) fifo.Receipt {
			t.Helper()
			got, err := client.Enqueue(ctx, m)
			require.NoError(t, err)
			return got[0]
		}
		s.exec(`INSERT INTO pgfifo.queues VALUES ('scoped', 3600000000, true)`)
		for _, queue := range []string{"q", "scoped"} {
			first := byClient(fifo.Message{Queue: queue, GroupID: "Zürich", DedupID: "ä"})
			duplicate := fifo.Receipt{ID: first.ID, Duplicate: true}
			require.Equal(t, duplicate, enqueue("'"+queue+"', 'Zürich', 'second', dedup_id => 'ä'"))
			other := enqueue("'" + queue + "', 'other', to_jsonb(2), dedup_id => 'ä', replace => true")
			require.Equal(t, queue == "q", other == duplicate, "of the queue or the group")
			duplicate.Replaced = true
			require.Equal(t, duplicate, enqueue("'"+queue+
				`', 'Zürich', 'third', '{"h": "3"}', dedup_id => 'ä', replace => true, delay => '1 s'`))
			require.Equal(t, 1, s.number(`SELECT count(*) FROM pgfifo.jobs
				WHERE id = $1 AND payload = 'third' AND headers = '{"h": "3"}' AND run_at IS NULL`, first.ID))

			second := enqueue("'" + queue + "', 'g', 'x'::bytea, dedup_id => 'b', replace => true")
			require.Zero(t, fifo.Receipt{Duplicate: second.Duplicate, Replaced: second.Replaced})
			require.Equal(t, fifo.Receipt{ID: second.ID, Duplicate: true},
				byClient(fifo.Message{Queue: queue, GroupID: "g", DedupID: "b"}))

			third := enqueue("'" + queue + "', NULL, 'x', ungrouped => true, dedup_id => 'c'")
			require.Equal(t, fifo.Receipt{ID: third.ID, Duplicate: true, Replaced: true}, byClient(
				fifo.Message{Queue: queue, Ungrouped: true, DedupID: "c", Replace: true}))
			require.Equal(t, fifo.Receipt{ID: third.ID, Duplicate: true, Replaced: true},
				enqueue("'"+queue+"', NULL, 'x', ungrouped => true, dedup_id => 'c', replace => true"))
		}
		require.Equal(t, []int{300, 3600}, []int{
			s.number(`SELECT round(extract(epoch FROM max(d.expires - j.enqueued_at))) FROM pgfifo.dedup_ids d
				JOIN pgfifo.jobs j ON j.id = d.job WHERE j.queue = 'q'`),
			s.number(`SELECT round(extract(epoch FROM max(d.expires - j.enqueued_at))) FROM pgfifo.dedup_ids d
				JOIN pgfifo.jobs j ON j.id = d.job WHERE j.queue = 'scoped'`),
		})

		s.exec("UPDATE pgfifo.dedup_ids SET expires = statement_timestamp()")
		require.False(t, enqueue("'q', 'g', 'x', dedup_id => 'b'").Duplicate, "the window is over")
		var list []string
		require.NoError(t, pool.QueryRow(ctx, s.sql(`SELECT ARRAY(SELECT e.duplicate || '/' || e.replaced
			FROM generate_series(1, 3) n,
			pgfifo.enqueue('q', 'many', n::text, dedup_id => 'many', replace => n > 2) e)`)).Scan(&list))
		require.Equal(t, []string{"false/false", "true/false", "true/true"}, list, "in one statement")
		require.Equal(t, 1, s.number("SELECT count(*) FROM pgfifo.jobs WHERE group_id = 'many' AND payload = '3'"))
		require.Equal(t, 1, s.number("SELECT count(*) FROM pgfifo.jobs WHERE group_id = 'many'"))
	})
}

// The second of two duplicates at once waits for the first: it is one if that commits, and takes its place if not.
func TestEnqueueFunctionDedupAtOnce(t *testing.T) {
	s := newStaff(t, "")
	ctx, pool := t.Context(), s.as(s.roles.Producer)
	client := s.client(pool)
	const call = "SELECT duplicate FROM pgfifo.enqueue('q', 'g', 'x', dedup_id => $1, commit_order => true)"
	for _, commit := range []bool{true, false} {
		id := fmt.Sprint(commit)
		tx := s.begin(pool, call, id)
		duplicates := make(chan bool, 2)
		go func() {
			got, err := client.Enqueue(ctx, fifo.Message{Queue: "q", GroupID: "g", DedupID: id})
			duplicates <- err == nil && got[0].Duplicate
		}()
		go func() {
			var duplicate bool
			err := pool.QueryRow(ctx, call, id).Scan(&duplicate)
			duplicates <- err == nil && duplicate
		}()
		s.until("both to wait", func() bool {
			return s.number(`SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`) == 2
		})
		if commit {
			require.NoError(t, tx.Commit(ctx))
		} else {
			require.NoError(t, tx.Rollback(ctx))
		}
		first, second := <-duplicates, <-duplicates
		require.True(t, first || second)
		require.Equal(t, commit, first && second)
	}
	require.Equal(t, 2, s.number("SELECT count(*) FROM pgfifo.jobs"))
}

// A job of no group is worked as a client's, and nothing stays of its group.
func TestEnqueueFunctionUngrouped(t *testing.T) {
	s := newStaff(t, "")
	ctx, pool := t.Context(), s.as(s.roles.Producer)
	_, err := pool.Exec(ctx,
		"SELECT pgfifo.enqueue('q', NULL, n::text, ungrouped => true) FROM generate_series(1, 50) n")
	require.NoError(t, err)
	_, err = s.client(pool).Enqueue(ctx, fifo.Message{Queue: "q", Ungrouped: true})
	require.NoError(t, err)
	require.Equal(t, 51, s.number(`SELECT count(DISTINCT group_id) FROM pgfifo.jobs
		WHERE group_id ~ '^~[0-9A-V]{24}$'`))
	require.Equal(t, 50, s.number(`SELECT count(*) FROM pgfifo.jobs WHERE payload <> ''
		AND left(group_id, 10) <= (SELECT left(group_id, 10) FROM pgfifo.jobs WHERE payload = '')`), "by time")
	w := &fifo.Worker{Client: s.client(s.as(s.roles.Worker)), Concurrency: 2, PollInterval: 100 * time.Millisecond}
	w.Handle("q", func(context.Context, *fifo.Job) error { return nil })
	s.work(w, "the jobs", func() bool {
		return s.number("SELECT (SELECT count(*) FROM pgfifo.jobs) + (SELECT count(*) FROM pgfifo.queue_groups)") == 0
	})
}
