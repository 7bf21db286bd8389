package fifo_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
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
	t.Parallel()
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
	t.Parallel()
	b := newBed(t)
	b.client.DB().SetMaxOpenConns(1)
	b.send("g", nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		_, err := job.Tx(ctx)
		return fifo.DeadLetter(err)
	}))
	require.Contains(t, b.deadLetters()[0].Failures[0].Error, "SetMaxOpenConns")
}
