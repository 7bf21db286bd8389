package fifo_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
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

// setTo are the ways in which the connections of a pool come to a setting.
func setTo(setting, value string) map[string]func(*bed) *pgxpool.Pool {
	return map[string]func(*bed) *pgxpool.Pool{
		"connection string": func(b *bed) *pgxpool.Pool {
			return b.pooled(func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["options"] = "-c" + setting + "=" + value
			})
		},
		"database": func(b *bed) *pgxpool.Pool {
			b.byDefault(setting, value)
			return b.pooled(func(*pgxpool.Config) {})
		},
		"AfterConnect": func(b *bed) *pgxpool.Pool {
			return b.pooled(func(cfg *pgxpool.Config) {
				cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
					return second(conn.Exec(ctx, "SET "+setting+" = "+value))
				}
			})
		},
	}
}

// byDefault makes a setting that of the database, for connections from now on.
func (b *bed) byDefault(setting, value string) {
	b.t.Helper()
	b.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET ` + setting + ` = ` + value + `',
		current_database()); END $$`)
}

// calls are those by which a client meets the settings of its connections first, about a queue or group of that id.
func (b *bed) calls(pool *pgxpool.Pool, id string) map[string]func(*fifo.Client) error {
	ctx, plain := b.t.Context(), fifo.Message{Queue: "q", GroupID: id}
	m := plain
	m.DedupID = id
	db := stdlib.OpenDBFromPool(pool)
	b.t.Cleanup(func() { require.NoError(b.t, db.Close()) })
	inPgx := func(f func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, pool, f) }
	inSQL := func(f func(*sql.Tx) error) error {
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(b.t, err)
		defer func() { _ = tx.Rollback() }()
		return f(tx)
	}
	worker := func(c *fifo.Client) *fifo.Worker {
		return b.worker(nop, func(w *fifo.Worker) { w.Client = c })
	}
	return map[string]func(*fifo.Client) error{
		"Enqueue":       func(c *fifo.Client) error { return second(c.Enqueue(ctx, plain)) },
		"Enqueue dedup": func(c *fifo.Client) error { return second(c.Enqueue(ctx, m)) },
		"EnqueuePgxTx": func(c *fifo.Client) error {
			return inPgx(func(tx pgx.Tx) error { return second(c.EnqueuePgxTx(ctx, tx, m)) })
		},
		"EnqueueTx": func(c *fifo.Client) error {
			return inSQL(func(tx *sql.Tx) error { return second(c.EnqueueTx(ctx, tx, m)) })
		},
		"Pause": func(c *fifo.Client) error { return pausing(c.Queue(id).Pause(ctx, id)) },
		"InPgx": func(c *fifo.Client) error {
			return inPgx(func(tx pgx.Tx) error { return pausing(c.Queue(id).InPgx(tx).Pause(ctx, id)) })
		},
		"In": func(c *fifo.Client) error {
			return inSQL(func(tx *sql.Tx) error { return pausing(c.Queue(id).In(tx).Pause(ctx, id)) })
		},
		"Jobs":   func(c *fifo.Client) error { return second(c.Jobs(ctx, fifo.Page{})) },
		"DB":     func(c *fifo.Client) error { return second(c.DB().ExecContext(ctx, "SELECT ?", id)) },
		"Run":    func(c *fifo.Client) error { return worker(c).Run(ctx) },
		"RunOne": func(c *fifo.Client) error { return second(worker(c).RunOne(ctx)) },
	}
}

// Wherever the setting comes from, nothing is sent in which a value could leave its quotes. The verbs send parameters,
// and a driver of database/sql may write them into the text.
func TestNonconformingStrings(t *testing.T) {
	pgtest.OverAll(t, setTo("standard_conforming_strings", "off"), func(t *testing.T, open func(*bed) *pgxpool.Pool) {
		b := withDeadLetters(t)
		pool := open(b)
		calls := b.calls(pool, escaping)
		for _, call := range []string{"Enqueue", "EnqueueTx", "DB", "Run", "RunOne"} {
			// Each by a client that has not looked yet.
			require.ErrorIs(t, calls[call](b.open(pool)), fifo.ErrNonconforming, call)
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
	require.NoError(t, second(client.Enqueue(t.Context(), fifo.Message{Queue: "other", GroupID: "g"})))

	require.NoError(t, second(pool.Exec(t.Context(), "SET standard_conforming_strings = off")))
	require.ErrorIs(t, second(drop()), fifo.ErrNonconforming)
	require.Equal(t, 2, b.count("dead_letters"))

	require.NoError(t, second(pool.Exec(t.Context(), "RESET standard_conforming_strings")))
	n, err := drop()
	require.NoError(t, err, "the connection is as good as before")
	require.Equal(t, int64(1), n)
	b.ledger.sent = nil
}

// UNICODE is another name of UTF8, which the server tells as it was set.
func TestOtherNameOfTheEncoding(t *testing.T) {
	b := newBed(t)
	b.client = b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["client_encoding"] = "UNICODE"
	}))
	b.send("é", nil)
	b.work(b.worker(nop, oneLane))
}

// In another encoding one group would be two, and one DedupID too. Every call refuses it.
func TestOtherEncodings(t *testing.T) {
	latin := setTo("client_encoding", "LATIN1")
	latin["SQL_ASCII"] = func(b *bed) *pgxpool.Pool {
		return b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["client_encoding"] = "SQL_ASCII" })
	}
	pgtest.OverAll(t, latin, func(t *testing.T, open func(*bed) *pgxpool.Pool) {
		b := newBed(t)
		pool := open(b)
		for call, do := range b.calls(pool, "é") {
			err := do(b.open(pool))
			require.ErrorIs(t, err, fifo.ErrNonconforming, call)
			require.ErrorContains(t, err, "set it to UTF8", call)
		}
		require.Zero(t, b.count("jobs"))
		require.Zero(t, b.count("pauses"))
	})
}

// A client that has looked once looks at each connection of its pool, and at each transaction of pgx.
func TestEncodingChanges(t *testing.T) {
	b, ctx := newBed(t), t.Context()
	pool := b.onePool()
	client := b.open(pool)
	m := fifo.Message{Queue: "q", GroupID: "é"}
	require.NoError(t, second(client.Enqueue(ctx, m)))
	require.NoError(t, second(pool.Exec(ctx, "SET client_encoding = 'LATIN1'")))
	require.ErrorIs(t, second(client.Enqueue(ctx, m)), fifo.ErrNonconforming)
	require.ErrorIs(t, second(client.Jobs(ctx, fifo.Page{})), fifo.ErrNonconforming)
	require.ErrorIs(t, pausing(client.Queue("é").Pause(ctx, "é")), fifo.ErrNonconforming)

	tx := b.begin()
	require.NoError(t, second(b.client.EnqueuePgxTx(ctx, tx, m)))
	require.NoError(t, second(tx.Exec(ctx, "SET LOCAL client_encoding = 'LATIN1'")))
	require.ErrorIs(t, second(b.client.EnqueuePgxTx(ctx, tx, m)), fifo.ErrNonconforming)
	require.NoError(t, second(tx.Exec(ctx, "SET LOCAL client_encoding = 'UTF8'")))
	require.NoError(t, second(b.client.EnqueuePgxTx(ctx, tx, m)), "the transaction goes on")
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, 3, b.count("jobs"))
}

// A worker's own connections do not have the default of its role or database.
func TestWorkersSetTheEncoding(t *testing.T) {
	overLeases(t, func(t *testing.T, by lease) {
		b := by.on(newBed(t))
		b.byDefault("client_encoding", "LATIN1")
		client := b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) { // of the pool only
				err := second(conn.Exec(ctx, "SET client_encoding = 'UTF8'"))
				return err == nil, err
			}
		}))
		m := fifo.Message{Queue: "q", GroupID: "é日", Headers: fifo.Headers{"ü": "日"}}
		require.NoError(b.t, second(client.Enqueue(b.t.Context(), m)))
		b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
			if job.GroupID != m.GroupID || job.Headers["ü"] != "日" {
				return fifo.DeadLetter(errOnPurpose)
			}
			return nil
		}, func(w *fifo.Worker) { w.Client = client }))
		require.Zero(b.t, b.count("dead_letters"))
	})
}
