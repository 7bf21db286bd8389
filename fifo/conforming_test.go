package fifo_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// escaping is a group id that names all groups where a backslash escapes the quote behind it.
const escaping = `\' OR true --`

// withDeadLetters returns a bed with a dead letter in each of two groups.
func withDeadLetters(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.send("g", "dead")
	b.send(escaping, "dead")
	b.bury()
	return b
}

// pooled returns another pool of the bed's database.
func (b *bed) pooled(adjust func(*pgxpool.Config)) *pgxpool.Pool {
	b.t.Helper()
	cfg, err := pgxpool.ParseConfig(b.url)
	require.NoError(b.t, err)
	adjust(cfg)
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	return pool
}

// onePool returns one of one connection.
func (b *bed) onePool() *pgxpool.Pool {
	b.t.Helper()
	return b.pooled(func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
}

func switchOff(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET standard_conforming_strings = off")
	return err
}

// Wherever the setting comes from, nothing is sent in which a value could leave its quotes. The verbs send parameters.
func TestNonconformingStrings(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*bed) *pgxpool.Pool{
		"connection string": func(b *bed) *pgxpool.Pool {
			u, err := url.Parse(b.url)
			require.NoError(b.t, err)
			q := u.Query()
			q.Set("options", "-cstandard_conforming_strings=off")
			u.RawQuery = q.Encode()
			pool, err := pgxpool.New(b.t.Context(), u.String())
			require.NoError(b.t, err)
			b.t.Cleanup(pool.Close)
			return pool
		},
		"database": func(b *bed) *pgxpool.Pool {
			b.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off',
				current_database()); END $$`)
			return b.pooled(func(*pgxpool.Config) {})
		},
		"AfterConnect": func(b *bed) *pgxpool.Pool {
			return b.pooled(func(cfg *pgxpool.Config) { cfg.AfterConnect = switchOff })
		},
	}, func(t *testing.T, open func(*bed) *pgxpool.Pool) {
		b := withDeadLetters(t)
		pool := open(b)
		for call, do := range map[string]func(*fifo.Client) error{
			"Enqueue": func(c *fifo.Client) error {
				_, err := c.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: escaping})
				return err
			},
			"DB": func(c *fifo.Client) error {
				_, err := c.DB().ExecContext(t.Context(), "SELECT ?", escaping)
				return err
			},
			"Run": func(c *fifo.Client) error {
				return b.worker(failing(1, errOnPurpose), func(w *fifo.Worker) { w.Client = c }).Run(t.Context())
			},
			"RunOne": func(c *fifo.Client) error {
				_, err := b.worker(failing(1, errOnPurpose), func(w *fifo.Worker) {
					w.Client = c
				}).RunOne(t.Context())
				return err
			},
		} {
			// Each by a client that has not looked yet.
			require.ErrorIs(t, do(b.open(pool)), fifo.ErrNonconforming, call)
		}
		require.Equal(t, 2, b.count("dead_letters"))
		require.Zero(t, b.count("jobs"))
		b.operate(b.open(pool))
	})
}

// operate has all verbs act on the group that names all where it is not a parameter. They do what they are to do.
func (b *bed) operate(c *fifo.Client) {
	b.t.Helper()
	ctx, g := b.t.Context(), c.Queue("q").Group(escaping)
	did := func(n int, err error) {
		b.t.Helper()
		require.NoError(b.t, err)
		require.Equal(b.t, 1, n)
	}
	require.NoError(b.t, pausing(g.Pause(ctx, escaping)))
	dead, err := g.DeadLetters(ctx, fifo.Letters{})
	did(len(dead), err)
	did(counted(g.Redrive(ctx, again(dead[0].ID))))
	jobs, err := g.Jobs(ctx, fifo.Page{})
	did(len(jobs), err)
	list, err := g.Groups(ctx, fifo.Page{})
	did(len(list), err)
	require.Equal(b.t, escaping, list[0].PauseReason)
	pauses, err := c.Pauses(ctx)
	did(len(pauses), err)
	d, err := g.Measure(ctx)
	did(d.Jobs, err)
	paused, err := g.Resume(ctx)
	require.NoError(b.t, err)
	require.True(b.t, paused)
	did(g.Purge(ctx))
	dead, err = c.DeadLetters(ctx, fifo.Letters{After: jobs[0].Cursor()})
	did(len(dead), err)
	require.Equal(b.t, "g", dead[0].GroupID)
	did(c.Queue("q").DeleteDeadLetters(ctx, fifo.Letters{All: true}))
	b.ledger.sent = nil // they are lost on purpose
}

// A client that has looked once looks at each connection on which bun writes values.
func TestStringsCeaseToConform(t *testing.T) {
	b := withDeadLetters(t)
	pool := b.onePool()
	client := b.open(pool)
	drop := func() (n int64, err error) {
		res, err := client.DB().ExecContext(t.Context(), "DELETE FROM pgfifo.dead_letters WHERE group_id = ?", escaping)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return n, err
	}
	_, err := client.Enqueue(t.Context(), fifo.Message{Queue: "other", GroupID: "g"})
	require.NoError(t, err)

	require.NoError(t, pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		return switchOff(t.Context(), c.Conn())
	}))
	_, err = drop()
	require.ErrorIs(t, err, fifo.ErrNonconforming)
	require.Equal(t, 2, b.count("dead_letters"))

	require.NoError(t, pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Exec(t.Context(), "RESET standard_conforming_strings")
		return err
	}))
	n, err := drop()
	require.NoError(t, err, "the connection is as good as before")
	require.Equal(t, int64(1), n)
	b.ledger.sent = nil
}
