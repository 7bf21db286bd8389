package pgfifo_test

import (
	"context"
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

// stubborn is a worker of two lanes whose handler does something in the first attempt of one job.
func (s *site) stubborn(job int64, do func(ctx context.Context, tx pgx.Tx, job *fifo.Job) error) *fifo.Worker {
	book, err := openJournal(s.journal, "stubborn")
	require.NoError(s, err)
	w := &fifo.Worker{
		Client: s.client, Concurrency: 2, PollInterval: 100 * time.Millisecond,
		Retry: func(*fifo.Job, error) time.Duration { return 0 },
	}
	w.Handle(queue, func(ctx context.Context, j *fifo.Job) error {
		book.write("start", j)
		defer book.write("end", j)
		tx, err := writeEffect(ctx, j)
		if err == nil && j.ID == job && j.Attempt() == 1 {
			err = do(ctx, tx, j)
		}
		return err
	})
	return w
}

func backend(ctx context.Context, tx pgx.Tx) (pid int, err error) {
	err = tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	return pid, err
}

// A handler that returns while a goroutine of its own is in the middle of a statement has failed: the connection is
// given up, because nobody can tell what the goroutine will do with it. The group is free when the server notices,
// within a second (client_connection_check_interval).
func TestGoroutineInAStatement(t *testing.T) {
	s := newSite(t)
	ids := s.enqueue(message("g", task{}), message("g", task{}))
	leaked := make(chan error, 1)
	w := s.stubborn(ids[0], func(ctx context.Context, tx pgx.Tx, _ *fifo.Job) error {
		pid, err := backend(ctx, tx)
		if err != nil {
			return err
		}
		go func() {
			_, err := tx.Exec(context.WithoutCancel(ctx), "SELECT pg_sleep(3600)")
			leaked <- err
		}()
		for sleeping := false; !sleeping && err == nil; {
			err = s.pool.QueryRow(ctx, "SELECT state = 'active' FROM pg_stat_activity WHERE pid = $1",
				pid).Scan(&sleeping)
		}
		return err
	})
	w.Concurrency = 1
	stop := background(s.T, w.Run)
	s.drained()
	stop()
	require.Error(t, receive(s.T, patience, leaked, "the end of the statement"))
	require.Equal(t, map[string][]int64{"g": ids}, s.effects())
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
	pool := pgtest.Connect(t, server.URL)
	var allowed int
	require.NoError(t,
		pool.QueryRow(t.Context(), "SELECT current_setting('max_prepared_transactions')::int").Scan(&allowed))
	if allowed == 0 {
		t.Skip("the server allows no prepared transactions (max_prepared_transactions = 0)")
	}
	require.NoError(t, migrations.Up(t.Context(), pool, nil))
	s := newSiteAt(t, server.URL)
	ids := s.enqueue(message("g", task{}), message("g", task{}))
	stop := background(t, s.stubborn(ids[0], func(ctx context.Context, tx pgx.Tx, _ *fifo.Job) error {
		_, err := tx.Exec(ctx, "PREPARE TRANSACTION 'left behind'")
		return err
	}).Run)
	s.until("the prepared transaction", func() bool { return s.number("SELECT count(*) FROM pg_prepared_xacts") == 1 })
	want := s.fill(3, 5)
	s.within(patience, "the other groups", func() bool { return s.jobs() == len(ids) })
	require.Len(t, s.find("start", ids[0]), 1, "the group is held")
	_, err = pool.Exec(t.Context(), "ROLLBACK PREPARED 'left behind'")
	require.NoError(t, err)
	s.drained()
	stop()
	want["g"] = ids
	require.Equal(t, want, s.effects())
}

// An attempted job, as its handler sees it.
type attempted struct {
	attempt int
	begun   time.Time
	told    time.Time // when its context ended
	cause   error
}

// twoAttempts runs two workers with a job whose first attempt does something for as long as it likes, and whose second
// one ends at once. It returns the attempts in the order of their ends.
func twoAttempts(t *testing.T, do func(s *site, ctx context.Context, tx pgx.Tx) error) []attempted {
	s := newSite(t)
	ids := s.enqueue(message("g", task{}))
	var mu sync.Mutex
	var seen []attempted
	for range 2 {
		w := &fifo.Worker{
			Client: s.client, Concurrency: 1, PollInterval: 50 * time.Millisecond, MaxAttempts: 5,
			Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3500 * time.Millisecond,
			Retry: func(*fifo.Job, error) time.Duration { return 0 },
		}
		w.Handle(queue, func(ctx context.Context, job *fifo.Job) (err error) {
			l := attempted{attempt: job.Attempt(), begun: time.Now()}
			told := make(chan time.Time, 1)
			defer context.AfterFunc(ctx, func() { told <- time.Now() })()
			defer func() {
				if ctx.Err() != nil {
					l.told, l.cause = <-told, context.Cause(ctx)
				}
				mu.Lock()
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
	require.Len(t, ids, 1)
	s.drained()
	s.within(patience, "the end of the attempts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range seen {
			if l.attempt == 1 {
				return true
			}
		}
		return false
	})
	mu.Lock()
	defer mu.Unlock()
	return seen
}

// forsaken waits until the server ends a session that says nothing in a transaction, as it would a worker's.
func (s *site) forsaken(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	_, err = conn.Exec(ctx, "SET idle_in_transaction_session_timeout = 4000; BEGIN; SELECT 1")
	for there := true; there && err == nil; {
		err = s.pool.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity, pg_sleep(0.05) WHERE pid = $1",
			conn.Conn().PgConn().PID()).Scan(&there)
	}
	return err
}

// Rows that stay open for longer than the server waits for a silent worker: the job keeps its worker.
func TestRowsOpenPastTheBound(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"few":                 "SELECT generate_series(1, 8)",
		"more, in the socket": "SELECT repeat('x', 1000) FROM generate_series(1, 500)",
	}, func(t *testing.T, sql string) {
		seen := twoAttempts(t, func(s *site, ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, sql)
			if err != nil {
				return err
			}
			defer rows.Close()
			rows.Next()
			if err := s.forsaken(ctx); err != nil {
				return err
			}
			for rows.Next() { //nolint:revive // they are all there
			}
			return rows.Err()
		})
		require.Len(t, seen, 1)
		require.NoError(t, seen[0].cause)
	})
}

// So many rows left unread that no heartbeat can be sent: the first handler is told before the second one begins.
func TestRowsUnreadPastTheBound(t *testing.T) {
	amounts := map[string]int{"in the sockets": 3000, "more than they hold": 100_000}
	pgtest.OverAll(t, amounts, func(t *testing.T, n int) {
		seen := twoAttempts(t, func(_ *site, ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT repeat('x', 1000) FROM generate_series(1, $1::integer)", n)
			if err != nil {
				return err
			}
			defer rows.Close()
			rows.Next()
			<-ctx.Done()
			return rows.Err()
		})
		require.Len(t, seen, 2)
		first, second := seen[0], seen[1]
		if first.attempt != 1 {
			first, second = second, first
		}
		require.ErrorIs(t, first.cause, fifo.ErrLost)
		require.NoError(t, second.cause)
		require.True(t, first.told.Before(second.begun), "told %v after the second began",
			first.told.Sub(second.begun))
	})
}
