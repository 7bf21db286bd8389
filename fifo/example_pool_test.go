package fifo_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// migratedPool returns a pool on a database of the example's own, where migrations.Up has made the tables. Both stay
// until all examples have ended.
func migratedPool() *pgxpool.Pool {
	url, err := pgtest.ExampleURL()
	if err != nil {
		panic(err)
	}
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		panic(err)
	}
	return pool
}
