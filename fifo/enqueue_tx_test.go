package fifo_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

// A producer enqueues in a transaction of some kind, and ends it.
type producer struct {
	t       *testing.T
	enqueue func(msgs ...fifo.Message) ([]int64, error)
	commit  func() error
	undo    func() error
}

// producers begins a transaction of every kind. A *sql.DB or *bun.DB does not compile in their place: it has no Commit.
var producers = map[string]func(b *bed) producer{
	"bun.Tx": func(b *bed) producer {
		tx, err := b.client.DB().BeginTx(b.t.Context(), nil)
		require.NoError(b.t, err)
		return b.producer(tx)
	},
	"*bun.Tx": func(b *bed) producer {
		tx, err := b.client.DB().BeginTx(b.t.Context(), nil)
		require.NoError(b.t, err)
		return b.producer(&tx)
	},
	"*sql.Tx": func(b *bed) producer {
		tx, err := b.client.DB().DB.BeginTx(b.t.Context(), nil)
		require.NoError(b.t, err)
		return b.producer(tx)
	},
	"pgx.Tx": func(b *bed) producer {
		tx := b.begin()
		return producer{
			b.t,
			func(msgs ...fifo.Message) ([]int64, error) {
				return receipt.IDs(b.client.EnqueuePgxTx(b.t.Context(), tx, msgs...))
			},
			func() error { return tx.Commit(b.t.Context()) },
			func() error { return tx.Rollback(context.WithoutCancel(b.t.Context())) },
		}
	},
}

// producer enqueues in a transaction of database/sql or bun.
func (b *bed) producer(tx fifo.Tx) producer {
	return producer{
		b.t,
		func(msgs ...fifo.Message) ([]int64, error) {
			return receipt.IDs(b.client.EnqueueTx(b.t.Context(), tx, msgs...))
		},
		tx.Commit, tx.Rollback,
	}
}

func (p producer) send(msgs ...fifo.Message) []int64 {
	p.t.Helper()
	ids, err := p.enqueue(msgs...)
	require.NoError(p.t, err)
	return ids
}

func TestEnqueueInTransaction(t *testing.T) {
	pgtest.OverAll(t, producers, func(t *testing.T, begin func(*bed) producer) {
		b := newBed(t)
		m := fifo.Message{Queue: "q", GroupID: "g", Payload: `?0 "$1"`, MaxAttempts: 7}
		p := begin(b)
		ids := p.send()
		require.Empty(t, ids)
		ids = p.send(m, m, m)
		require.IsIncreasing(t, ids)
		_, err := p.enqueue(fifo.Message{})
		require.ErrorIs(t, err, fifo.ErrInvalidMessage)
		require.Zero(t, b.count("jobs"))
		require.NoError(t, p.commit())
		jobs := b.jobs()
		require.Len(t, jobs, 3)
		for i, job := range jobs {
			require.Equal(t, ids[i], job.ID)
			require.Equal(t, m.Payload, string(job.Payload))
			require.Equal(t, 7, job.MaxAttempts)
		}

		p = begin(b)
		p.send(m)
		require.NoError(t, p.undo())
		require.Equal(t, 3, b.count("jobs"))
		_, err = p.enqueue(m)
		require.Error(t, err, "the transaction has ended")
	})
}

// A wary transaction is one of a driver that takes a $1 in a comment for a parameter, and an apostrophe for a quote.
type waryTx struct {
	*sql.Tx
	t *testing.T
}

func (tx waryTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	require.NotContains(tx.t, query, "--")
	return tx.Tx.QueryContext(ctx, query, args...)
}

// internal/drivers has real ones.
func TestNoCommentsForDrivers(t *testing.T) {
	b := newBed(t)
	tx, err := b.client.DB().DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	p := b.producer(waryTx{tx, t})
	p.send(fifo.Message{Queue: "q", GroupID: "g"})
	p.send(fifo.Message{Queue: "q", GroupID: "g", DedupID: "d"}, fifo.Message{Queue: "q", GroupID: "g"})
	require.NoError(t, pausing(b.q.In(waryTx{tx, t}).Pause(t.Context(), "test")))
	require.NoError(t, p.commit())
	require.Len(t, b.jobs(), 3)
}

func TestEnqueueNilTransaction(t *testing.T) {
	b := newBed(t)
	m := fifo.Message{Queue: "q", GroupID: "g"}
	for range 2 { // before the version was checked, and after
		for _, tx := range []fifo.Tx{nil, bun.Tx{}, (*bun.Tx)(nil), &bun.Tx{}, (*sql.Tx)(nil)} {
			_, err := b.client.EnqueueTx(t.Context(), tx, m)
			require.ErrorContains(t, err, "nil transaction")
		}
		for _, tx := range []pgx.Tx{nil, (*pgxpool.Tx)(nil)} {
			_, err := b.client.EnqueuePgxTx(t.Context(), tx, m)
			require.ErrorContains(t, err, "nil transaction")
		}
		require.ErrorContains(t, b.client.InTx(t.Context(), nil), "nil function")
		require.PanicsWithValue(t, "fifo: Open: nil pool", func() { fifo.Open(nil, nil) })
		b.receipts(m)
	}
}

// The isolation level is the caller's.
func TestEnqueueIsolation(t *testing.T) {
	b := newBed(t)
	for _, client := range []*fifo.Client{b.client, b.open(b.pool, commitOrder)} {
		tx, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.Serializable})
		require.NoError(t, err)
		_, err = client.EnqueuePgxTx(t.Context(), tx, fifo.Message{Queue: "q", GroupID: "g"})
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context()))
	}
	require.Equal(t, 2, b.count("jobs"))
}

// begin begins a transaction of pgx, which is rolled back at the end of the test: the pool would wait for it.
func (b *bed) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// beginWith begins one with a statement.
func (b *bed) beginWith(sql string, args ...any) pgx.Tx {
	b.t.Helper()
	tx := b.begin()
	_, err := tx.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
	return tx
}

// receipts enqueues, and has nothing audited.
func (b *bed) receipts(msgs ...fifo.Message) []fifo.Receipt {
	b.t.Helper()
	list, err := b.client.Enqueue(promptly(b.t), msgs...)
	require.NoError(b.t, err)
	return list
}

func (b *bed) receiptsIn(tx pgx.Tx, msgs ...fifo.Message) []fifo.Receipt {
	b.t.Helper()
	list, err := b.client.EnqueuePgxTx(promptly(b.t), tx, msgs...)
	require.NoError(b.t, err)
	return list
}

// promptly is for what must not wait for a transaction that the test holds open: it would wait for good.
func promptly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/2)
	t.Cleanup(cancel)
	return ctx
}

func TestLateCommit(t *testing.T) {
	b := newBed(t)
	b.ledger.unordered = true
	b.run(b.worker(nop, rarePolls))
	for kind, begin := range producers {
		late := begin(b)
		low := late.send(fifo.Message{Queue: "q", GroupID: kind})
		high := b.send(kind, nil)
		b.ends(kind, 1)
		require.NoError(t, late.commit())
		b.ends(kind, 2)
		_, _, order := b.ledger.of(kind)
		require.Equal(t, append(high, low...), order, kind)
	}
}
