package fifo_test

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

type (
	order struct {
		ID    int64  `bun:",pk"`
		Items []item `bun:"m2m:order_items,join:Order=Item"`
	}
	item struct {
		ID int64 `bun:",pk"`
	}
	orderItem struct {
		bun.BaseModel `bun:"table:order_items"`

		OrderID int64  `bun:",pk"`
		Order   *order `bun:"rel:belongs-to,join:order_id=id"`
		ItemID  int64  `bun:",pk"`
		Item    *item  `bun:"rel:belongs-to,join:item_id=id"`
	}
)

// A queryLog is a query hook.
type queryLog struct {
	mu      sync.Mutex
	queries []string
}

func (*queryLog) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (l *queryLog) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries = append(l.queries, e.Query)
}

// The transaction of a job has the models and the query hooks of the client's DB.
func TestTxIsOfTheClientsDB(t *testing.T) {
	b := newBed(t)
	b.exec("CREATE TABLE orders (id bigint)")
	b.exec("CREATE TABLE items (id bigint)")
	b.exec("CREATE TABLE order_items (order_id bigint, item_id bigint)")
	b.exec("INSERT INTO orders VALUES (1)")
	b.exec("INSERT INTO items VALUES (2), (3)")
	b.exec("INSERT INTO order_items VALUES (1, 2), (1, 3)")
	hook := &queryLog{}
	b.client.DB().RegisterModel((*orderItem)(nil))
	b.client.DB().AddQueryHook(hook) //nolint:staticcheck // its successor makes another DB
	b.send("g", nil)
	var found order
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM items WHERE id = ?", 3); err != nil {
			return err
		}
		return tx.NewSelect().Model(&found).Relation("Items").Scan(ctx)
	}))
	require.Equal(t, order{ID: 1, Items: []item{{ID: 2}}}, found, "as its own transaction sees it")
	require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ledger.outcomes())
	hook.mu.Lock()
	defer hook.mu.Unlock()
	require.Contains(t, hook.queries, "DELETE FROM items WHERE id = 3")
}

// A bound of database/sql would have handlers wait for each other for ever: there is an error instead.
func TestTxOfABoundedDB(t *testing.T) {
	b := newBed(t)
	b.client.DB().SetMaxOpenConns(1)
	b.send("g", nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		_, err := job.Tx(ctx)
		return fifo.DeadLetter(err)
	}))
	require.Contains(t, b.deadLetters()[0].Failures[0].Error, "SetMaxOpenConns")
}

// A connection that database/sql keeps would be taken for the job's: there is an error instead, and nothing that the
// handler writes is committed. Not even if a query hook asks the DB for another connection.
func TestTxOfADBWithIdleConnections(t *testing.T) {
	where := map[string]bool{"alone": false, "with a hook that asks the DB": true}
	pgtest.OverAll(t, where, func(t *testing.T, hooked bool) {
		b := newEffects(t)
		b.exec("CREATE TABLE asked (about text)")
		m := &meddler{db: b.client.DB(), errs: make(chan error, 100)}
		if hooked {
			b.client.DB().AddQueryHook(m) //nolint:staticcheck // its successor makes another DB
		}
		b.client.DB().SetMaxIdleConns(1)
		_, err := b.client.DB().ExecContext(t.Context(), "SELECT 1") // now one is idle
		require.NoError(t, err)
		b.send("g", nil)
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			err := bunExec(ctx, job, "INSERT INTO effects VALUES (1)")
			return fifo.DeadLetter(cmp.Or(err, errOnPurpose))
		}))
		require.Contains(t, b.deadLetters()[0].Failures[0].Error, "SetMaxIdleConns")
		require.Empty(t, m.errs)
		require.Empty(t, b.effects())
	})
}

// A hook that makes a context of its own, or asks the DB with the one that it has, leaves the job's transaction what it
// is, and is outside of it.
type meddler struct {
	detach bool
	db     *bun.DB
	asking atomic.Bool
	errs   chan error
}

func (m *meddler) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	m.ask(ctx, "before "+e.Query)
	if m.detach {
		return context.Background()
	}
	return ctx
}

func (m *meddler) AfterQuery(ctx context.Context, e *bun.QueryEvent) { m.ask(ctx, "after "+e.Query) }

func (m *meddler) ask(ctx context.Context, about string) {
	if !m.asking.CompareAndSwap(false, true) {
		return // about its own query
	}
	defer m.asking.Store(false)
	if _, err := m.db.ExecContext(ctx, "INSERT INTO asked VALUES (?)", about); err != nil {
		m.errs <- err
	}
}

// An auditor is a query hook that asks for the job's transaction.
type auditor struct {
	job    *fifo.Job
	detach bool // with a context of its own, which ends
	asking bool
	errs   []error
}

func (a *auditor) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	a.ask(ctx)
	return ctx
}

func (a *auditor) AfterQuery(ctx context.Context, _ *bun.QueryEvent) { a.ask(ctx) }

func (a *auditor) ask(ctx context.Context) {
	if a.asking || a.job == nil {
		return
	}
	a.asking = true
	defer func() { a.asking = false }()
	if a.detach {
		own, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		ctx = own
	}
	_, err := a.job.Tx(ctx)
	a.errs = append(a.errs, err)
}

// A query hook that asks for the transaction at its BEGIN would wait for itself: it gets an error instead. Later it has
// the transaction.
func TestTxAskedForByAHook(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{
		"with its context": false, "with another context": true,
	}, func(t *testing.T, detach bool) {
		b, a := newEffects(t), &auditor{detach: detach}
		b.client.DB().AddQueryHook(a) //nolint:staticcheck // its successor makes another DB
		b.send("g", nil)
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			a.job = job
			defer func() { a.job = nil }()
			tx, err := job.Tx(ctx)
			if err == nil {
				_, err = tx.Exec("INSERT INTO effects VALUES (1)")
			}
			return err
		}))
		require.Equal(t, []int{1}, b.effects())
		require.Len(t, a.errs, 4)
		for _, err := range a.errs[:2] {
			if detach {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.ErrorContains(t, err, "while that is begun")
			}
		}
		require.NoError(t, a.errs[2])
		require.NoError(t, a.errs[3])
	})
}

func TestTxWithHooksThatMeddle(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{
		"with its context": false, "with another context": true,
	}, func(t *testing.T, detach bool) {
		b := newEffects(t)
		b.exec("CREATE TABLE asked (about text)")
		m := &meddler{detach: detach, db: b.client.DB(), errs: make(chan error, 100)}
		b.client.DB().AddQueryHook(m) //nolint:staticcheck // its successor makes another DB
		b.send("g", nil)
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			err := bunExec(ctx, job, "INSERT INTO effects VALUES (1)")
			return fifo.DeadLetter(cmp.Or(err, errOnPurpose))
		}))
		require.Equal(t, []string{
			"before BEGIN", "after BEGIN",
			"before INSERT INTO effects VALUES (1)", "after INSERT INTO effects VALUES (1)",
		}, query[[]string](b, "SELECT array_agg(about) FROM asked"), "outside of the transaction")
		require.Empty(t, m.errs)
		require.Equal(t, errOnPurpose.Error(), b.deadLetters()[0].Failures[0].Error)
		require.Empty(t, b.effects(), "undone")
	})
}
