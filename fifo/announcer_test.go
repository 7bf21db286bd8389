package fifo_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// An ear hears notices, as a worker does.
type ear struct {
	*bed
	conn *pgx.Conn
}

func (b *bed) listen() *ear {
	b.t.Helper()
	conn := pgtest.Conn(b.t, b.url)
	_, err := conn.Exec(b.t.Context(), "LISTEN pgfifo")
	require.NoError(b.t, err)
	return &ear{b, conn}
}

// next waits for the next notice.
func (e *ear) next() string {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	n, err := e.conn.WaitForNotification(ctx)
	require.NoError(e.t, err)
	return n.Payload
}

// before returns the notices until now. They arrive in the order in which they were sent.
func (e *ear) before() []string {
	e.t.Helper()
	e.exec("NOTIFY pgfifo, 'now'")
	all := []string{}
	for text := e.next(); text != "now"; text = e.next() {
		all = append(all, text)
	}
	return all
}

// groupsOf returns the queue of a notice, and its groups by the ids that it names.
func groupsOf(t *testing.T, text string) (queue string, byID map[int64]string) {
	t.Helper()
	var n struct {
		Q string
		G []struct {
			G string
			I int64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &n), text)
	byID = make(map[int64]string)
	for _, g := range n.G {
		byID[g.I] = g.G
	}
	return n.Q, byID
}

// asked waits until a client has asked a few times what has become of transactions.
func (b *bed) asked() {
	b.t.Helper()
	seen := make(map[time.Time]bool)
	await(b.t, "the client to ask", func() bool {
		seen[query[time.Time](b, `SELECT coalesce(max(query_start), 'epoch') FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '%pg_xact_status%' AND pid <> pg_backend_pid()`)] = true
		return len(seen) > 3
	})
}

// A notice of each queue is said when the transaction has committed, and not before; none of one that was rolled back.
func TestNoticeAfterCommit(t *testing.T) {
	pgtest.OverAll(t, producers, func(t *testing.T, begin func(*bed) producer) {
		b := newBed(t)
		e := b.listen()
		p := begin(b)
		first := p.send(fifo.Message{Queue: "q", GroupID: "g"}, fifo.Message{Queue: "r", GroupID: "g"})
		then := p.send(fifo.Message{Queue: "q", GroupID: "g"}, fifo.Message{Queue: "s", GroupID: "g"})
		b.asked()
		require.Empty(t, e.before())
		require.NoError(t, p.commit())
		heard := make(map[string]map[int64]string)
		for range 3 {
			queue, groups := groupsOf(t, e.next())
			heard[queue] = groups
		}
		require.Equal(t, map[string]map[int64]string{
			"q": {first[0]: "g"}, "r": {first[1]: "g"}, "s": {then[1]: "g"},
		}, heard)

		p = begin(b)
		p.send(fifo.Message{Queue: "undone", GroupID: "g"})
		b.asked()
		require.NoError(t, p.undo())
		b.send("after", nil)
		for range 2 { // the one of send, and another that is asked about after the undone one
			queue, _ := groupsOf(t, e.next())
			require.Equal(t, "q", queue)
			p = begin(b)
			p.send(fifo.Message{Queue: "q", GroupID: "later"})
			require.NoError(t, p.commit())
		}
	})
}

// However fast a client enqueues, it says one thing at a time, with a pause behind it.
func TestNoticesAreGathered(t *testing.T) {
	b := newBed(t)
	e := b.listen()
	begin := time.Now()
	for range 500 {
		b.send("g", nil)
	}
	require.LessOrEqual(t, len(e.before()), 1+int(time.Since(begin)/time.Millisecond))
}

func TestInTx(t *testing.T) {
	b := newBed(t)
	e := b.listen()
	m := fifo.Message{Queue: "q", GroupID: "g"}
	enqueue := func(end func() error) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			if _, err := b.client.EnqueuePgxTx(t.Context(), tx, m); err != nil {
				return err
			}
			return end()
		}
	}
	require.ErrorIs(t, b.client.InTx(t.Context(), enqueue(func() error { return errOnPurpose })), errOnPurpose)
	require.PanicsWithValue(t, "on purpose", func() {
		_ = b.client.InTx(t.Context(), enqueue(func() error { panic("on purpose") }))
	})
	ended, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, b.client.InTx(ended, enqueue(func() error { cancel(); return nil })), context.Canceled)
	require.Zero(t, b.count("jobs"))
	require.Empty(t, e.before())
	require.NoError(t, b.client.InTx(t.Context(), enqueue(func() error { return nil })))
	require.Equal(t, 1, b.count("jobs"))
	queue, groups := groupsOf(t, e.next())
	require.Equal(t, "q", queue)
	require.Len(t, groups, 1)

	// A transaction that f has ended itself.
	err := b.client.InTx(t.Context(), func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
	require.ErrorIs(t, err, pgx.ErrTxClosed)

	broken := fifo.Open(b.pool, &fifo.Config{Schema: "pg_none"})
	called := errors.New("called")
	require.ErrorIs(t, broken.InTx(t.Context(), func(pgx.Tx) error { return called }), fifo.ErrInvalidConfig)
	require.NoError(t, broken.Close())
}

// While the client cannot say anything, enqueues in callers' transactions go on, and polling finds what they added.
// When it can again, it does.
func TestSilentAnnouncer(t *testing.T) {
	type silence = func(t *testing.T, pool *pgxpool.Pool, c *fifo.Client) (again func())
	pgtest.OverAll(t, map[string]silence{
		"pool exhausted": func(t *testing.T, pool *pgxpool.Pool, _ *fifo.Client) func() {
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			t.Cleanup(conn.Release)
			return conn.Release
		},
		"client closed": func(t *testing.T, _ *pgxpool.Pool, c *fifo.Client) func() {
			require.NoError(t, c.Close())
			return nil
		},
		"producer dead after its commit": func(_ *testing.T, pool *pgxpool.Pool, _ *fifo.Client) func() {
			pool.Close()
			return nil
		},
	}, func(t *testing.T, begin silence) {
		b := newBed(t)
		pool := b.onePool()
		c := fifo.Open(pool, nil)
		_, err := c.Jobs(t.Context(), fifo.Page{}) // it has looked at the schema
		require.NoError(t, err)
		e := b.listen()
		again := begin(t, pool, c)
		enqueue := func() {
			require.NoError(t, pgx.BeginFunc(promptly(t), b.pool, func(tx pgx.Tx) error {
				_, err := c.EnqueuePgxTx(t.Context(), tx, fifo.Message{Queue: "q", GroupID: "g"})
				return err
			}))
		}
		for range 100 {
			enqueue()
		}
		require.Empty(t, e.before())
		b.work(b.worker(nop, func(w *fifo.Worker) { w.PollInterval = 20 * time.Millisecond }))
		require.Len(t, b.ledger.order(), 100)
		if again != nil {
			require.Empty(t, e.before())
			again()
			enqueue()
			_, groups := groupsOf(t, e.next())
			require.Len(t, groups, 1)
		}
		require.NoError(t, c.Close())
	})
}

// A client whose connections are ended again and again says a notice as soon as it has one that lives.
func TestAnnouncerLosesItsConnection(t *testing.T) {
	b := newBed(t)
	pool := b.onePool()
	c := b.open(pool)
	e := b.listen()
	for range 5 {
		var pid int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		tx := b.begin()
		ids, err := c.EnqueuePgxTx(t.Context(), tx, fifo.Message{Queue: "q", GroupID: "g"})
		require.NoError(t, err)
		b.exec("SELECT pg_terminate_backend($1)", pid)
		require.NoError(t, tx.Commit(t.Context()))
		if _, groups := groupsOf(t, e.next()); groups[ids[0].ID] == "" {
			require.Fail(t, "another notice")
		}
	}
}

func TestCloseAnnounces(t *testing.T) {
	b := newBed(t)
	e := b.listen()
	for kind, begin := range producers {
		b.client = fifo.Open(b.pool, nil)
		open, p := begin(b), begin(b)
		open.send(fifo.Message{Queue: "open", GroupID: "g"})
		p.send(fifo.Message{Queue: "q", GroupID: "g"})
		require.NoError(t, p.commit())
		b.receipts(fifo.Message{Queue: "alone", GroupID: "g"})
		require.NoError(t, b.client.Close())
		heard := make(map[string]bool)
		for _, text := range e.before() {
			queue, _ := groupsOf(t, text)
			heard[queue] = true
		}
		require.Equal(t, map[string]bool{"q": true, "alone": true}, heard, kind)
		require.NoError(t, open.undo())
	}
}
