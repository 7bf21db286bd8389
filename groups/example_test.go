package groups_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
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

// A paused group waits, and the others go on.
func ExampleAdmin_Pause() {
	ctx := context.Background()
	client := fifo.Open(migratedPool(), nil)
	admin := client.Admin()

	account := groups.Key{Queue: "payments", GroupID: "account-7"}
	if err := admin.Pause(ctx, account, "under audit"); err != nil {
		log.Fatal(err)
	}
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "account-7"}, fifo.Message{Queue: "payments", GroupID: "account-8"})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	worker := &fifo.Worker{Client: client}
	worker.Handle("payments", fifo.HandlerFunc(func(ctx context.Context, job *fifo.Job) error {
		fmt.Println(job.GroupID)
		if job.GroupID == "account-7" {
			stop()
			return nil
		}
		pauses, err := admin.Pauses(ctx)
		if err != nil {
			return err
		}
		fmt.Println(pauses[0].GroupID, "is paused:", pauses[0].Reason)
		return admin.Resume(ctx, account)
	}))
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// account-8
	// account-7 is paused: under audit
	// account-7
}
