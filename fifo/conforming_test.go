package fifo_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
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

func switchOff(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET standard_conforming_strings = off")
	return err
}

// Wherever the setting comes from, nothing is sent in which a value could leave its quotes.
func TestNonconformingStrings(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*bed) *pgxpool.Pool{
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withDeadLetters(t)
			pool := open(b)
			key := groups.Key{Queue: "q", GroupID: escaping}
			for call, do := range map[string]func(*fifo.Client) error{
				"Enqueue": func(c *fifo.Client) error {
					_, err := c.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: escaping})
					return err
				},
				"Jobs": func(c *fifo.Client) error {
					_, err := c.Jobs(t.Context(), fifo.Filter{GroupID: escaping})
					return err
				},
				"DeadLetters": func(c *fifo.Client) error {
					_, err := c.DeadLetters(t.Context(), fifo.Filter{GroupID: escaping})
					return err
				},
				"DeleteDeadLetters": func(c *fifo.Client) error {
					_, err := c.DeleteDeadLetters(t.Context(), key)
					return err
				},
				"Redrive": func(c *fifo.Client) error { _, err := c.Redrive(t.Context(), key); return err },
				"List": func(c *fifo.Client) error {
					_, err := c.Admin().List(t.Context(), groups.Filter{GroupID: escaping})
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
		})
	}
}

// A client that has looked once looks at each connection on which bun writes values.
func TestStringsCeaseToConform(t *testing.T) {
	t.Parallel()
	b := withDeadLetters(t)
	pool := b.pooled(func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	client := b.open(pool)
	list, err := client.DeadLetters(t.Context(), fifo.Filter{GroupID: escaping})
	require.NoError(t, err)
	require.Len(t, list, 1)

	require.NoError(t, pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		return switchOff(t.Context(), c.Conn())
	}))
	_, err = client.DeleteDeadLetters(t.Context(), groups.Key{Queue: "q", GroupID: escaping})
	require.ErrorIs(t, err, fifo.ErrNonconforming)
	require.Equal(t, 2, b.count("dead_letters"))

	require.NoError(t, pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		_, err := c.Exec(t.Context(), "RESET standard_conforming_strings")
		return err
	}))
	n, err := client.DeleteDeadLetters(t.Context(), groups.Key{Queue: "q", GroupID: escaping})
	require.NoError(t, err, "the connection is as good as before")
	require.Equal(t, 1, n)
}
