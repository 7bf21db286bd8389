package fifo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// places returns where jobs are, in lists' order: queue/group payload.
func (b *bed) places() (list []string) {
	b.t.Helper()
	for _, j := range b.jobs() {
		list = append(list, j.Group().String()+" "+string(j.Payload))
	}
	return list
}

// What is moved is behind what is there, in order, whatever is moved where.
func TestMove(t *testing.T) {
	type row struct {
		from, to string // queue/group, or queue
		moved    int
		want     []string
	}
	pgtest.OverAll(t, map[string]row{
		"group to group": {
			"q/a", "other/z", 3,
			[]string{"other/a x", "other/z y", "other/z 1", "other/z 3", "other/z 5", "q/b 0", "q/b 2", "q/b 4"},
		},
		"group to queue": {
			"q/a", "other", 3,
			[]string{"other/a x", "other/a 1", "other/a 3", "other/a 5", "other/z y", "q/b 0", "q/b 2", "q/b 4"},
		},
		"queue to queue": {
			"q", "other", 6,
			[]string{
				"other/a x", "other/a 1", "other/a 3", "other/a 5", "other/b 0", "other/b 2", "other/b 4", "other/z y",
			},
		},
		"queue to a group of it": {
			"q", "q/a", 3,
			[]string{"other/a x", "other/z y", "q/a 1", "q/a 3", "q/a 5", "q/a 0", "q/a 2", "q/a 4"},
		},
		"queue to a new group": {
			"q", "n/n", 6,
			[]string{"n/n 0", "n/n 1", "n/n 2", "n/n 3", "n/n 4", "n/n 5", "other/a x", "other/z y"},
		},
		"to itself": {
			"q", "q", 0,
			[]string{"other/a x", "other/z y", "q/a 1", "q/a 3", "q/a 5", "q/b 0", "q/b 2", "q/b 4"},
		},
	}, func(t *testing.T, x row) {
		b := newBed(t)
		for i := range 6 {
			b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', $1, $2)`,
				string("ba"[i%2]), []byte(fmt.Sprint(i)))
		}
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('other', 'a', 'x'), ('other', 'z', 'y')`)
		scope := func(name string) fifo.Scope {
			queue, group, one := strings.Cut(name, "/")
			if one {
				return b.client.Queue(queue).Group(group)
			}
			return b.client.Queue(queue)
		}
		n, err := scope(x.from).Move(t.Context(), scope(x.to))
		require.NoError(t, err)
		require.Equal(t, x.moved, n)
		require.Equal(t, x.want, b.places())
	})
}

// A moved job is what it was, with its attempts to begin anew; one that blocks its group does so no more.
func TestMoveKeepsTheJob(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.jobs
		(queue, group_id, payload, headers, run_at, attempts, max_attempts, priority, enqueued_at, failures)
		VALUES ('q', 'g', 'p', '{"n": "v"}', '2031-01-01', 2, 7, 4, '2020-01-01', '[{"attempt": 2, "kind": "error",
		"error": "e", "worker": "w", "at": "2026-01-01T00:00:00Z"}]')`)
	before := b.jobs()[0]
	b.exec(`INSERT INTO pgfifo.pauses (queue, group_id, job, by_hand) VALUES ('q', 'g', $1, false)`, before.ID)
	n, err := b.q.Move(t.Context(), b.client.Queue("r").Group("h"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	after := b.jobs()[0]
	require.Greater(t, after.ID, before.ID)
	before.Queue, before.GroupID, before.ID, before.Attempts = "r", "h", after.ID, 0
	require.Equal(t, before, after)
	require.Zero(t, b.count("pauses"))
}

// Of the scope that jobs are moved to only the names count: it may be another client's, and in a transaction.
func TestMoveStaysInItsDatabase(t *testing.T) {
	b := newBed(t)
	b.plant("q", 1, "g")
	n, err := b.q.Move(t.Context(), nowhere(t).Queue("there").InPgx(nil))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"there/g "}, b.places())

	elsewhere := b.open(b.pool, func(c *fifo.Config) { c.Schema = "pg_none" })
	require.ErrorIs(t, second(b.client.Queue("there").Move(t.Context(), elsewhere.Queue("q"))), fifo.ErrInvalidConfig)
	require.Equal(t, []string{"there/g "}, b.places())
}

func TestMoveBesideARunningJob(t *testing.T) {
	b := newBed(t)
	b.ledger.unordered = true
	h := newBlocking()
	b.run(b.worker(h.handle, rarePolls))
	for kind, within := range scopesWithin {
		from, to := kind+"/g", kind+"/h"
		head := b.send(from, "one")[0]
		require.Equal(t, head, receive(t, h.started, "the head"))
		b.send(from, "two", "three")
		s, end := within(b, b.q.Group(from))
		n, err := s.Move(promptly(t), b.q.Group(to))
		require.NoError(t, err)
		require.Equal(t, 2, n)
		if end.commit != nil {
			require.Equal(t, []string{"q/" + from + " one", "q/" + from + " two", "q/" + from + " three"}, b.places())
			require.NoError(t, end.commit())
		}
		receive(t, h.started, "the head of what was moved")
		require.Equal(t, []string{"q/" + from + " one", "q/" + to + " two", "q/" + to + " three"}, b.places())
		for range 3 {
			h.release <- struct{}{}
		}
		b.drained()
		receive(t, h.started, "the last one")
	}
	require.Equal(t, strings.Repeat("one two three ", len(scopesWithin)), strings.Join(b.ledger.payloads(), " ")+" ")
	b.ledger.sent = nil // they have other ids now
}

// Moves of one group here and there again and beside workers lose nothing, double nothing, and keep the order of what
// is in one place.
func TestMovesBesideWorkers(t *testing.T) {
	const many = 90
	b := newList(t)
	b.ledger.unordered = true // ids change
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'g', convert_to(i::text, 'UTF8') FROM generate_series(1, $1::integer) i`, many)
	b.exec("CREATE TABLE done (n bigserial, payload integer)")
	w := b.each(fifo.Queue{BatchJobs: 7}, func(ctx context.Context, job *fifo.Job) error {
		return exec(ctx, job, "INSERT INTO done (payload) VALUES ($1::text::integer)", string(job.Payload))
	}, func(w *fifo.Worker) { w.Concurrency = 3 })
	r := b.run(w)
	for i := 0; b.count("jobs") > 0; i++ {
		from, to := "g", "h"
		if i%2 == 1 {
			from, to = to, from
		}
		require.NoError(t, second(b.q.Group(from).Move(promptly(t), b.q.Group(to))))
	}
	require.NoError(t, r.stop())
	require.Equal(t, many, query[int](b, "SELECT count(*) FROM done"))
	require.Equal(t, many, query[int](b, "SELECT count(DISTINCT payload) FROM done"))
}

// In the order of commits, a move waits for producers that have enqueued to where it goes, and no other does.
func TestMoveInTheOrderOfCommits(t *testing.T) {
	pgtest.OverEach(t, []string{"h", ownAlike}, func(t *testing.T, to string) {
		b := newBed(t, commitOrder)
		b.plant("q", 2, "g")
		tx := b.begin()
		b.receiptsIn(tx, fifo.Message{Queue: "q", GroupID: to, Payload: "before"})
		moved := beside(func() error {
			_, err := b.q.Group("g").Move(promptly(t), b.q.Group(to))
			return err
		})
		await(t, "the move to wait", func() bool { return b.waiters() == 1 })
		require.Len(t, b.jobs(), 2)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, receive(t, moved, "the move"))
		require.Equal(t, []string{"q/" + to + " before", "q/" + to + " ", "q/" + to + " "}, b.places())
	})
}
