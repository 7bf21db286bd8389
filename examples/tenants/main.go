// Tenants has row-level security decide what a handler may write: each job runs in the role of its tenant, who has no
// right on the library's tables, and completes all the same. One that writes to another tenant's rows is a dead letter.
//
// It makes its schema, tenants_example, anew, and the roles of two tenants, in the database that DATABASE_URL names:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/tenants
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

// The worker's login has to be a member of the tenants' roles, and not the owner of the table, whom no policy binds.
const (
	setup = `DROP SCHEMA IF EXISTS tenants_example CASCADE;
		DROP ROLE IF EXISTS tenants_example_ada, tenants_example_bob;
		CREATE ROLE tenants_example_ada; GRANT tenants_example_ada TO CURRENT_USER;
		CREATE ROLE tenants_example_bob; GRANT tenants_example_bob TO CURRENT_USER;
		CREATE SCHEMA tenants_example;
		GRANT USAGE ON SCHEMA tenants_example TO tenants_example_ada, tenants_example_bob;
		CREATE TABLE tenants_example.notes (n int GENERATED ALWAYS AS IDENTITY, tenant text, note text);
		GRANT SELECT, INSERT (tenant, note) ON tenants_example.notes TO tenants_example_ada, tenants_example_bob;
		ALTER TABLE tenants_example.notes ENABLE ROW LEVEL SECURITY;
		CREATE POLICY own ON tenants_example.notes USING ('tenants_example_' || tenant = current_user)`
	become = "SELECT set_config('role', $1, true)" // SET LOCAL ROLE, with a parameter
	write  = "INSERT INTO tenants_example.notes (tenant, note) VALUES ($1, $2)"
	see    = "SELECT note FROM tenants_example.notes ORDER BY n"
	rights = "SELECT has_table_privilege('tenants_example_ada', 'tenants_example.jobs', 'SELECT, UPDATE, DELETE')"
)

type note struct{ Tenant, Text string }

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return errors.New("set DATABASE_URL to your PostgreSQL's, such as postgres://user:password@host/database")
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, setup)
	if err = errors.Join(err, migrations.Up(ctx, pool, &migrations.Config{Schema: "tenants_example"})); err != nil {
		return err
	}
	work, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	var ended atomic.Int64
	client := fifo.Open(pool, &fifo.Config{Schema: "tenants_example", Hooks: []fifo.Hooks{{
		Settled: func(_ context.Context, _ *fifo.Job, outcome fifo.Outcome, _ error) {
			if (outcome == fifo.Succeeded || outcome == fifo.Buried) && ended.Add(1) == 4 {
				done()
			}
		},
	}}})
	defer func() { err = errors.Join(err, client.Close()) }()
	worker := &fifo.Worker{Client: client, MaxAttempts: 1}
	worker.Handle("notes", fifo.JSON(func(ctx context.Context, job *fifo.Job, n note) error {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		// With a prefix, for a group id is the producer's to choose, and this login is a member of more roles.
		if _, err = tx.Exec(ctx, become, "tenants_example_"+job.GroupID); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, write, n.Tenant, n.Text)
		return err
	}))
	send := func(group string, n note) fifo.Message {
		return fifo.Message{Queue: "notes", GroupID: group, Payload: n}
	}
	_, err = client.Enqueue(ctx, send("ada", note{"ada", "buy ink"}), send("bob", note{"bob", "feed the cat"}),
		send("ada", note{"bob", "pay ada"}), send("ada", note{"ada", "write to Charles"}))
	if err != nil {
		return err
	}
	if err = worker.Run(work); err != nil {
		return err
	}
	dead, err := client.Queue("notes").DeadLetters(ctx, fifo.Letters{})
	for _, d := range dead {
		fmt.Printf("refused to %s: %s: %s\n", d.GroupID, d.Payload, d.Failures[0].Error)
	}
	var allowed bool
	err = errors.Join(err, pool.QueryRow(ctx, rights).Scan(&allowed))
	if stats := worker.Stats(); err == nil && (allowed || len(dead) != 1 || stats.Succeeded != 3) {
		err = fmt.Errorf("rights on the jobs: %v; %d dead letters; %+v", allowed, len(dead), stats)
	}
	return errors.Join(err, look(ctx, pool, "ada", 2), look(ctx, pool, "bob", 1))
}

// look prints what a tenant sees.
func look(ctx context.Context, pool *pgxpool.Pool, tenant string, want int) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, become, "tenants_example_"+tenant); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, see)
		notes, err := pgx.CollectRows(rows, pgx.RowTo[string])
		fmt.Printf("%s sees %q\n", tenant, notes)
		if err == nil && len(notes) != want {
			err = fmt.Errorf("%s sees %d notes instead of %d", tenant, len(notes), want)
		}
		return err
	})
}
