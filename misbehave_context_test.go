package pgfifo_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

func backend(ctx context.Context, tx pgx.Tx) (pid int, err error) {
	err = tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	return pid, err
}

// A handler that says PREPARE TRANSACTION, on a server that allows it, gives the group to a transaction without a
// session: no death and no timeout ends that, somebody has to. Until then the group waits, and the others do not.
func TestPreparedTransaction(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(), &pgserver.Options{
		Settings: map[string]string{"max_prepared_transactions": "2"}, Logf: t.Logf,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	db := pgtest.At(t, server.URL)
	if pgtest.One[int](db, "SELECT current_setting('max_prepared_transactions')::int") == 0 {
		t.Skip("the server allows no prepared transactions (max_prepared_transactions = 0)")
	}
	require.NoError(t, migrations.Up(t.Context(), db.Pool, nil))
	s := siteOn(db)
	ids := s.enqueue(message("g", task{}), message("g", task{}))
	book, err := openJournal(s.journal, "stubborn")
	require.NoError(t, err)
	w := &fifo.Worker{Client: s.client, Concurrency: 2, PollInterval: 100 * time.Millisecond, Retry: atOnce}
	w.Handle(queue, func(ctx context.Context, job *fifo.Job) error {
		book.write("start", job)
		defer book.write("end", job)
		tx, err := writeEffect(ctx, job)
		if err == nil && job.ID == ids[0] && job.Attempt() == 1 {
			_, err = tx.Exec(ctx, "PREPARE TRANSACTION 'left behind'")
		}
		return err
	})
	stop := background(t, w.Run)
	s.until("the prepared transaction", func() bool { return s.number("SELECT count(*) FROM pg_prepared_xacts") == 1 })
	want := s.fill(3, 5)
	s.within(patience, "the other groups", func() bool { return s.jobs() == len(ids) })
	require.Len(t, s.find("start", ids[0]), 1, "the group is held")
	s.Exec("ROLLBACK PREPARED 'left behind'")
	s.drained()
	stop()
	want["g"] = ids
	require.Equal(t, want, s.effects())
}

// An attempted job, as its handler sees it.
type attempted struct {
	attempt int
	beside  bool  // it began before the context of the first one had ended
	cause   error // why its own context ended
}

// twoAttempts runs two workers with a job whose first attempt does something for as long as it likes, and whose second
// one ends at once. It returns the attempts in the order of their ends.
func twoAttempts(t *testing.T, do func(s *site, ctx context.Context, tx pgx.Tx) error) []attempted {
	s := newSite(t)
	s.enqueue(message("g", task{}))
	var mu sync.Mutex
	var seen []attempted
	var first context.Context
	for range 2 {
		w := &fifo.Worker{
			Client: s.client, Concurrency: 1, PollInterval: 50 * time.Millisecond, MaxAttempts: 5,
			Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3500 * time.Millisecond,
			Retry: atOnce,
		}
		w.Handle(queue, func(ctx context.Context, job *fifo.Job) (err error) {
			mu.Lock()
			l := attempted{attempt: job.Attempt(), beside: first != nil && first.Err() == nil}
			if first == nil {
				first = ctx
			}
			mu.Unlock()
			defer func() {
				mu.Lock()
				l.cause = context.Cause(ctx)
				seen = append(seen, l)
				mu.Unlock()
			}()
			tx, err := job.PgxTx(ctx)
			if err != nil || job.Attempt() > 1 {
				return err
			}
			return do(s, ctx, tx)
		})
		background(s.T, w.Run)
	}
	s.drained()
	s.within(patience, "the end of the attempts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(seen, func(a attempted) bool { return a.attempt == 1 })
	})
	mu.Lock()
	defer mu.Unlock()
	return seen
}

// forsaken waits until the server ends a session that says nothing in a transaction, as it would a worker's.
func (s *site) forsaken(ctx context.Context) error {
	conn, err := s.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Exec(ctx, "SET idle_in_transaction_session_timeout = 4000; BEGIN; SELECT 1")
	for there := true; there && err == nil; {
		err = s.Pool.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity, pg_sleep(0.05) WHERE pid = $1",
			conn.Conn().PgConn().PID()).Scan(&there)
	}
	return err
}

// Rows that stay open for longer than the server waits for a silent worker: the job keeps its worker. But if so many
// are left unread that no heartbeat can be sent, the first handler is told before the second one begins.
func TestRowsOpenPastTheBound(t *testing.T) {
	type row struct {
		size, n int
		lost    bool
	}
	pgtest.OverAll(t, map[string]row{
		"few": {1, 8, false}, "more, in the socket": {1000, 500, false},
		"unread, in the sockets": {1000, 3000, true}, "unread, more than they hold": {1000, 100_000, true},
	}, func(t *testing.T, x row) {
		seen := twoAttempts(t, func(s *site, ctx context.Context, tx pgx.Tx) error {
			const sql = "SELECT repeat('x', $1::integer) FROM generate_series(1, $2::integer)"
			rows, err := tx.Query(ctx, sql, x.size, x.n)
			if err != nil {
				return err
			}
			defer rows.Close()
			rows.Next()
			if x.lost {
				<-ctx.Done()
				return rows.Err()
			}
			if err := s.forsaken(ctx); err != nil {
				return err
			}
			for rows.Next() { //nolint:revive // they are all there
			}
			return rows.Err()
		})
		first := slices.IndexFunc(seen, func(a attempted) bool { return a.attempt == 1 })
		if !x.lost {
			require.Len(t, seen, 1)
			require.NoError(t, seen[0].cause)
			return
		}
		require.Len(t, seen, 2)
		require.ErrorIs(t, seen[first].cause, fifo.ErrLost)
		second := seen[1-first]
		require.NoError(t, second.cause)
		require.False(t, second.beside)
	})
}
