package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
)

const (
	queue     = "ledger"
	batchSize = 500 // transfers a transaction
)

// produce asks for transfers between random accounts. Each is a row of the business table and two messages, one to the
// group of each account.
func produce(ctx context.Context, pool *pgxpool.Pool, client *fifo.Client, transfers int) error {
	for first := 1; first <= transfers; first += batchSize {
		var rows [][]any
		var msgs []fifo.Message
		for id := first; id < min(first+batchSize, transfers+1); id++ {
			n := rand.IntN(accounts)
			from, to := account(n), account((n+1+rand.IntN(accounts-1))%accounts)
			amount := 1 + rand.Int64N(100_000)
			rows = append(rows, []any{int64(id), from, to, amount})
			msgs = append(msgs,
				fifo.Message{Queue: queue, GroupID: from, Payload: entry{int64(id), -amount}},
				fifo.Message{Queue: queue, GroupID: to, Payload: entry{int64(id), amount}})
		}
		// Rows and messages in one transaction: both exist when it commits, and neither if it does not.
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			columns := []string{"id", "from_account", "to_account", "amount"}
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{"transfers"}, columns, pgx.CopyFromRows(rows)); err != nil {
				return err
			}
			_, err := client.EnqueuePgxTx(ctx, tx, msgs...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func account(n int) string { return fmt.Sprintf("account-%03d", n+1) }
