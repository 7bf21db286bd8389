// Quickstart moves money between accounts, kills a worker on the way, and proves from the ledger that every transfer
// was applied exactly once and in order:
//
//	go run ./examples/quickstart
//
// It needs no database: package pgserver finds or starts one. With DATABASE_URL set it uses that server, in a database
// of its own that it drops in the end.
//
// Read worker.go for the handler, producer.go for the enqueue, and proof.go for what is proved. The rest is processes
// and printing.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/migrations"
)

//go:embed schema.sql
var schemaSQL string

const (
	accounts = 300 // each is a message group
	workers  = 3   // processes; one is killed
	lanes    = 8   // jobs at once in each of them
)

func main() {
	if text := os.Getenv(assignmentEnv); text != "" {
		if err := work(text); err != nil {
			fmt.Fprintln(os.Stderr, "quickstart: worker:", err)
			os.Exit(1)
		}
		return
	}
	transfers := flag.Int("transfers", 10_000, "how many transfers to make, 2000 or more; each is two jobs")
	flag.Parse()

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel) // a second Ctrl-C does not wait for the cleaning up
	ok, err := run(ctx, *transfers)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "quickstart: interrupted")
	case err != nil:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run gets a server and a database on it, and cleans both up in the end.
func run(ctx context.Context, transfers int) (ok bool, err error) {
	fmt.Println("starting PostgreSQL, then working for some seconds")
	server, err := pgserver.Start(ctx, &pgserver.Options{Durable: true})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	fmt.Printf("PostgreSQL %s, from: %s\n", server.Version, server.Source)

	admin, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		return false, err
	}
	always := context.WithoutCancel(ctx) // cleaning up must not be interrupted
	defer func() { err = errors.Join(err, admin.Close(always)) }()
	database := fmt.Sprintf("pgfifo_quickstart_%d", os.Getpid())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+database); err != nil {
		return false, err
	}
	defer func() {
		_, dropErr := admin.Exec(always, "DROP DATABASE "+database+" WITH (FORCE)")
		err = errors.Join(err, dropErr)
	}()

	pool, err := connect(ctx, server.URL, database)
	if err != nil {
		return false, err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, nil); err != nil {
		return false, err
	}
	if _, err := pool.Exec(ctx, schemaSQL); err != nil {
		return false, err
	}
	client := fifo.Open(pool, nil)
	defer func() { err = errors.Join(err, client.Close()) }()
	return experiment(ctx, pool, client, transfers, assignment{URL: server.URL, Database: database})
}

// connect opens a pool on one database of a server.
func connect(ctx context.Context, url, database string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.Database = database
	return pgxpool.NewWithConfig(ctx, cfg)
}
