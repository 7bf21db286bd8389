package fifo_test

import (
	"cmp"
	"context"
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

// A hook does something before and after each query of the client's DB, but for those that it makes itself.
type hook struct {
	do     func(ctx context.Context, about string)
	detach bool // queries go on with a context of the hook's own
	asking atomic.Bool
}

func (b *bed) hook(detach bool, do func(ctx context.Context, about string)) {
	b.client.DB().AddQueryHook(&hook{do: do, detach: detach}) //nolint:staticcheck // its successor makes another DB
}

func (h *hook) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	h.ask(ctx, "before "+e.Query)
	if h.detach {
		return context.Background()
	}
	return ctx
}

func (h *hook) AfterQuery(ctx context.Context, e *bun.QueryEvent) { h.ask(ctx, "after "+e.Query) }

func (h *hook) ask(ctx context.Context, about string) {
	if h.asking.CompareAndSwap(false, true) {
		defer h.asking.Store(false)
		h.do(ctx, about)
	}
}

// meddle has a hook that asks the DB with the context that it has, which is outside of the job's transaction, and
// returns what goes wrong then.
func (b *bed) meddle(detach bool) <-chan error {
	b.exec("CREATE TABLE asked (about text)")
	db, errs := b.client.DB(), make(chan error, 100)
	b.hook(detach, func(ctx context.Context, about string) {
		if _, err := db.ExecContext(ctx, "INSERT INTO asked VALUES (?)", about); err != nil {
			errs <- err
		}
	})
	return errs
}

var detached = map[string]bool{"with its context": false, "with another context": true}

// The transaction of a job has the models and the query hooks of the client's DB.
func TestTxIsOfTheClientsDB(t *testing.T) {
	b := newBed(t)
	b.exec("CREATE TABLE orders (id bigint)")
	b.exec("CREATE TABLE items (id bigint)")
	b.exec("CREATE TABLE order_items (order_id bigint, item_id bigint)")
	b.exec("INSERT INTO orders VALUES (1)")
	b.exec("INSERT INTO items VALUES (2), (3)")
	b.exec("INSERT INTO order_items VALUES (1, 2), (1, 3)")
	b.client.DB().RegisterModel((*orderItem)(nil))
	var queries []string
	b.hook(false, func(_ context.Context, about string) { queries = append(queries, about) })
	b.send("g", nil)
	var found order
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if err := bunExec(ctx, job, "DELETE FROM items WHERE id = ?", 3); err != nil {
			return err
		}
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		return tx.NewSelect().Model(&found).Relation("Items").Scan(ctx)
	}))
	require.Equal(t, order{ID: 1, Items: []item{{ID: 2}}}, found, "as its own transaction sees it")
	require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ledger.outcomes())
	require.Contains(t, queries, "after DELETE FROM items WHERE id = 3")
}

// A bound of database/sql would have handlers wait for each other for ever, and a connection that it keeps would be
// taken for the job's: there is an error instead, and nothing that the handler writes is committed. Not even if a query
// hook asks the DB for another connection.
func TestTxOfADBThatIsSet(t *testing.T) {
	const hooked = "idle, and a hook asks the DB"
	pgtest.OverNamed(t, map[string]string{
		"bounded": "SetMaxOpenConns", "idle": "SetMaxIdleConns", hooked: "SetMaxIdleConns",
	}, func(t *testing.T, name, says string) {
		b := newEffects(t)
		var errs <-chan error
		if name == hooked {
			errs = b.meddle(false)
		}
		if name == "bounded" {
			b.client.DB().SetMaxOpenConns(1)
		} else {
			b.client.DB().SetMaxIdleConns(1)
			require.NoError(t, second(b.client.DB().ExecContext(t.Context(), "SELECT 1"))) // now one is idle
		}
		b.send("g", nil)
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			err := bunExec(ctx, job, "INSERT INTO effects VALUES (1)")
			return fifo.DeadLetter(cmp.Or(err, errOnPurpose))
		}))
		require.Contains(t, b.deadLetters()[0].Failures[0].Error, says)
		require.Empty(t, errs)
		require.Empty(t, b.effects())
	})
}

// A query hook that asks for the transaction at its BEGIN would wait for itself: it gets an error instead. Later it has
// the transaction.
func TestTxAskedForByAHook(t *testing.T) {
	pgtest.OverAll(t, detached, func(t *testing.T, detach bool) {
		b := newEffects(t)
		var running *fifo.Job
		var errs []error
		b.hook(false, func(ctx context.Context, _ string) {
			if running == nil {
				return
			}
			if detach { // with a context of its own, which ends
				own, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				ctx = own
			}
			errs = append(errs, second(running.Tx(ctx)))
		})
		b.send("g", nil)
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			running = job
			defer func() { running = nil }()
			tx, err := job.Tx(ctx)
			if err == nil {
				_, err = tx.Exec("INSERT INTO effects VALUES (1)")
			}
			return err
		}))
		require.Equal(t, []int{1}, b.effects())
		require.Len(t, errs, 4)
		for _, err := range errs[:2] {
			if detach {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.ErrorContains(t, err, "while that is begun")
			}
		}
		require.NoError(t, errs[2])
		require.NoError(t, errs[3])
	})
}

// A hook that makes a context of its own, or asks the DB with the one that it has, leaves the job's transaction what it
// is, and is outside of it.
func TestTxWithHooksThatMeddle(t *testing.T) {
	pgtest.OverAll(t, detached, func(t *testing.T, detach bool) {
		b := newEffects(t)
		errs := b.meddle(detach)
		b.send("g", nil)
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			err := bunExec(ctx, job, "INSERT INTO effects VALUES (1)")
			return fifo.DeadLetter(cmp.Or(err, errOnPurpose))
		}))
		require.Equal(t, []string{
			"before BEGIN", "after BEGIN",
			"before INSERT INTO effects VALUES (1)", "after INSERT INTO effects VALUES (1)",
		}, query[[]string](b, "SELECT array_agg(about) FROM asked"), "outside of the transaction")
		require.Empty(t, errs)
		require.Equal(t, errOnPurpose.Error(), b.deadLetters()[0].Failures[0].Error)
		require.Empty(t, b.effects(), "undone")
	})
}
