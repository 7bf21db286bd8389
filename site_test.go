package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

// A site is where worker processes work: a database with their effects, and their journal.
type site struct {
	*pgtest.DB
	client   *fifo.Client
	journal  string
	past     []event // what was read of it
	read     int64   // how many bytes that is
	pollOnly bool
	task     task // of the jobs of fill
	count    int
	killed   map[string]bool
}

// newSite has the test run beside others.
func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	return siteOn(pgtest.New(t))
}

// newSiteAt returns a site in a database that is there, and migrated.
func newSiteAt(t *testing.T, url string) *site {
	t.Helper()
	return siteOn(pgtest.At(t, url))
}

func siteOn(db *pgtest.DB) *site {
	db.Helper()
	s := &site{
		DB: db, client: fifo.Open(db.Pool, nil),
		journal: filepath.Join(db.TempDir(), "journal"), killed: make(map[string]bool),
	}
	s.Cleanup(func() { _ = s.client.Close() })
	require.NoError(s, os.WriteFile(s.journal, nil, 0o600))
	// No key keeps effects single or in order: only the queue does.
	s.Exec(`CREATE TABLE effects (
		n bigint GENERATED ALWAYS AS IDENTITY, group_id text NOT NULL, job_id bigint NOT NULL,
		attempt integer NOT NULL)`)
	return s
}

func message(group string, payload task) fifo.Message {
	return fifo.Message{Queue: queue, GroupID: group, Payload: payload}
}

func (s *site) enqueue(msgs ...fifo.Message) []int64 {
	s.Helper()
	ids, err := receipt.IDs(s.client.Enqueue(s.Context(), msgs...))
	require.NoError(s, err)
	return ids
}

// transactions are the ways to enqueue in a transaction of one's own. then is called before the commit, and its error
// rolls back.
func transactions(
	c *fifo.Client, pool *pgxpool.Pool,
) map[string]func(ctx context.Context, m fifo.Message, then func() error) error {
	return map[string]func(ctx context.Context, m fifo.Message, then func() error) error{
		"pgx": func(ctx context.Context, m fifo.Message, then func() error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := c.EnqueuePgxTx(ctx, tx, m)
				return errors.Join(err, then())
			})
		},
		"InTx": func(ctx context.Context, m fifo.Message, then func() error) error {
			return c.InTx(ctx, func(tx pgx.Tx) error {
				_, err := c.EnqueuePgxTx(ctx, tx, m)
				return errors.Join(err, then())
			})
		},
		"sql": func(ctx context.Context, m fifo.Message, then func() error) error {
			tx, err := c.DB().DB.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = c.EnqueueTx(ctx, tx, m)
			if err = errors.Join(err, then()); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
		"bun": func(ctx context.Context, m fifo.Message, then func() error) error {
			return c.DB().RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := c.EnqueueTx(ctx, tx, m)
				return errors.Join(err, then())
			})
		},
	}
}

func commits() error { return nil }

// fill enqueues so many jobs for each of so many groups, interleaved, and returns their ids by group.
func (s *site) fill(groups, jobs int) map[string][]int64 {
	s.Helper()
	ids := make(map[string][]int64)
	for range jobs {
		var msgs []fifo.Message
		for g := range groups {
			msgs = append(msgs, message(fmt.Sprint("g", g), s.task))
		}
		for i, id := range s.enqueue(msgs...) {
			ids[msgs[i].GroupID] = append(ids[msgs[i].GroupID], id)
		}
	}
	return ids
}

// gate closes the gate that handlers wait at, and returns what opens it.
func (s *site) gate() (open func()) {
	s.Helper()
	c := s.Session()
	c.Do("SELECT pg_advisory_lock($1)", gateKey)
	return func() {
		s.Helper()
		c.Do("SELECT pg_advisory_unlock($1)", gateKey)
	}
}

// patience bounds every wait: long enough for a loaded machine, shorter than any timeout that would hide a failure.
const patience = 10 * time.Second

// until waits for a condition.
func (s *site) until(what string, cond func() bool) {
	s.Helper()
	s.within(patience, what, cond)
}

func (s *site) within(limit time.Duration, what string, cond func() bool) {
	s.Helper()
	if !pgtest.Wait(limit, cond) {
		require.FailNow(s, "waited in vain for "+what, "%+v", tail(s.events()))
	}
}

func tail(events []event) []event { return events[max(0, len(events)-20):] }

// drained waits until no job is left; the time allowed is for a few thousand of them.
func (s *site) drained() {
	s.Helper()
	s.within(30*time.Second, "an empty queue", func() bool { return s.jobs() == 0 })
}

func (s *site) jobs() int { return s.number("SELECT count(*) FROM pgfifo.jobs") }

func (s *site) number(sql string, args ...any) int {
	s.Helper()
	return pgtest.One[int](s.DB, sql, args...)
}

// background runs something, a worker say, until the test ends or the returned function is called, and requires that it
// ends well.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// work runs a worker in this process, until the test ends. One that could not connect in time when it began, as a busy
// machine lets happen to those of little patience, begins again, as whoever runs a worker has it do.
func (s *site) work(w *fifo.Worker, h fifo.Handler) {
	s.Helper()
	w.Handle(queue, h)
	background(s.T, func(ctx context.Context) error {
		err := w.Run(ctx)
		for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = w.Run(ctx)
		}
		return err
	})
}

// atOnce is a Worker.Retry.
func atOnce(*fifo.Job, error) time.Duration { return 0 }

// receive waits for a value from a channel.
func receive[T any](t *testing.T, limit time.Duration, from <-chan T, what string) (v T) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v = <-from:
	case <-timer.C:
		require.FailNow(t, "waited in vain for "+what)
	}
	return v
}

// writeEffect writes the effect of a job in its transaction, which it returns.
func writeEffect(ctx context.Context, job *fifo.Job) (pgx.Tx, error) {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO public.effects (group_id, job_id, attempt) VALUES ($1, $2, $3)",
		job.GroupID, job.ID, job.Attempt())
	return tx, err
}
