package fifo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A lease is one of the two that a queue may have: by a session, or by the transaction of each job.
type lease bool

const bySession lease = true

var leases = map[string]lease{"transaction": false, "session": bySession}

// overLeases runs a test with each lease. What it says of queues, on adds to them.
func overLeases(t *testing.T, test func(t *testing.T, by lease)) {
	t.Helper()
	pgtest.OverAll(t, leases, test)
}

// on gives queue q the lease, and the other ones that are named.
func (by lease) on(b *bed, others ...string) *bed {
	b.t.Helper()
	b.by = by
	if by == bySession {
		for _, name := range append(others, "q") {
			require.NoError(b.t, b.client.Queue(name).Configure(b.t.Context(), by.with(fifo.Settings{})))
		}
	}
	return b
}

// with returns the settings of a queue that has the lease.
func (by lease) with(s fifo.Settings) fifo.Settings {
	s.SessionLease = by == bySession
	return s
}

// seats has a worker run as many jobs at once, whichever lease its queues have.
func seats(w *fifo.Worker) {
	if w.SessionConcurrency == 0 {
		w.SessionConcurrency = w.Concurrency
	}
}

// atOnce has a worker run n jobs at once. By session they share the one connection for transactions, for which these
// jobs must not ask.
func (by lease) atOnce(n int) func(*fifo.Worker) {
	return func(w *fifo.Worker) {
		w.Concurrency, w.SessionConcurrency = n, n
		if by == bySession {
			w.Concurrency = 1
		}
	}
}

// keeper returns the backend of the session that has the group of queue q, or 0.
func (b *bed) keeper(group string) int {
	b.t.Helper()
	return query[int](b, `SELECT coalesce(min(k.pid), 0)
		FROM pgfifo.keepers k JOIN pgfifo.queue_groups g USING (session)
		WHERE g.queue = 'q' AND g.group_id = $1`, group)
}
