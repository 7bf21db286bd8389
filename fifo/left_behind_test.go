package fifo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// requests returns how many walks were requested.
func (b *bed) requests() int {
	return query[int](b, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM pgfifo.walk_requests")
}

// Somebody has a job locked that is due, when a delayed one before it is taken out: workers that are not told would not
// look at it, unless they walk over all groups.
func TestLeftBehindADelayedJob(t *testing.T) {
	b := newBed(t)
	for verb, take := range map[string]func(fifo.Scope, int64) error{
		"delete": func(g fifo.Scope, id int64) error { return g.Delete(t.Context(), id) },
		"bury":   func(g fifo.Scope, id int64) error { return g.Bury(t.Context(), id, "") },
		"purge":  func(g fifo.Scope, _ int64) error { _, err := g.Purge(t.Context()); return err },
		"move":   func(g fifo.Scope, _ int64) error { _, err := g.Move(t.Context(), b.q.Group("there")); return err },
	} {
		next := fifo.Message{Queue: "q", GroupID: verb}
		delayed := next
		delayed.Delay = time.Hour
		jobs := b.receipts(delayed, next)
		before := b.requests()
		tx := b.beginWith(fmt.Sprintf("SELECT FROM pgfifo.jobs WHERE id = %d FOR UPDATE", jobs[1].ID))
		require.NoError(t, take(b.q.Group(verb), jobs[0].ID), verb)
		require.Equal(t, before+1, b.requests(), verb)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// A job that is due becomes so anew when a delayed one before it is taken out, also if that is not the head by then.
func TestBehindTwoDelayedJobs(t *testing.T) {
	b := newBed(t)
	last := fifo.Message{Queue: "q", GroupID: "g"}
	delayed := last
	delayed.Delay = time.Hour
	jobs := b.receipts(delayed, delayed, last)
	before := b.requests()
	second, first := b.begin(), b.begin()
	require.NoError(t, b.q.InPgx(second).Delete(t.Context(), jobs[1].ID))
	require.NoError(t, b.q.InPgx(first).Delete(t.Context(), jobs[0].ID))
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, second.Commit(t.Context()))
	require.True(t, query[bool](b, "SELECT run_at <= now() FROM pgfifo.jobs"))
	require.Equal(t, before, b.requests(), "no walk is needed")
}
