package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A row and a message are committed together, with bun and with database/sql.
func ExampleClient_EnqueueTx() {
	ctx := context.Background()
	pool := pgtest.ExamplePool()
	client := fifo.Open(pool, nil)
	order := fifo.Message{Queue: "orders", GroupID: "ada", Payload: "tea"}

	err := client.DB().RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE orders (customer text, item text)"); err != nil {
			return err
		}
		_, err := client.EnqueueTx(ctx, tx, order)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	db := stdlib.OpenDBFromPool(pool) // any *sql.DB with a driver for PostgreSQL will do
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.EnqueueTx(ctx, tx, order); err != nil {
		log.Fatal(err)
	}
	if err := tx.Rollback(); err != nil { // the second order was never there
		log.Fatal(err)
	}

	jobs, err := client.Queue("orders").Jobs(ctx, fifo.Page{})
	fmt.Println(len(jobs), err)
	// Output: 1 <nil>
}

// Headers go beside the payload: a trace context, say, which an Enqueue hook may add.
func ExampleHeaders() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx, fifo.Message{
		Queue: "orders", GroupID: "ada", Payload: "tea",
		Headers: fifo.Headers{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	})
	if err != nil {
		log.Fatal(err)
	}
	worker := &fifo.Worker{Client: client}
	worker.Handle("orders", func(_ context.Context, job *fifo.Job) error {
		fmt.Println(job.Headers["traceparent"])
		return nil
	})
	_, err = worker.RunOne(ctx)
	fmt.Println(err)
	// Output:
	// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
	// <nil>
}

func ExampleClient_EnqueuePgxTx() {
	ctx := context.Background()
	pool := pgtest.ExamplePool()
	client := fifo.Open(pool, nil)

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "CREATE TABLE orders (customer text, item text)"); err != nil {
		log.Fatal(err)
	}
	_, err = client.EnqueuePgxTx(ctx, tx, fifo.Message{Queue: "orders", GroupID: "ada", Payload: "tea"})
	if err != nil {
		log.Fatal(err)
	}
	before, _ := client.Jobs(ctx, fifo.Page{})
	if err := tx.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	after, _ := client.Jobs(ctx, fifo.Page{})
	fmt.Println(len(before), len(after))
	// Output: 0 1
}

// A trigger of a table, psql, or a program in another language enqueues by a function in the library's schema.
func Example_enqueueInSQL() {
	ctx := context.Background()
	pool := pgtest.ExamplePool()
	client := fifo.Open(pool, nil)

	_, err := pool.Exec(ctx, `
		CREATE TABLE orders (customer text, item text);
		CREATE FUNCTION order_placed() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pgfifo.enqueue('orders', NEW.customer, to_jsonb(NEW), headers => '{"via": "trigger"}');
			RETURN NULL;
		END $$;
		CREATE TRIGGER order_placed AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION order_placed();
		INSERT INTO orders VALUES ('ada', 'tea');
		SELECT pgfifo.enqueue('orders', 'ada', 'a text', delay => '1 hour', dedup_id => 'order-7');
		SELECT id, duplicate FROM pgfifo.enqueue('orders', 'ada', 'the same', dedup_id => 'order-7')`)
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := client.Queue("orders").Jobs(ctx, fifo.Page{})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Printf("%s %s %v\n", job.GroupID, job.Payload, job.Headers)
	}
	// Output:
	// ada {"item": "tea", "customer": "ada"} map[via:trigger]
	// ada a text map[]
}

// InTx commits if the function returns nil, and rolls back if not.
func ExampleClient_InTx() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	order := func(item string, stock int) error {
		return client.InTx(ctx, func(tx pgx.Tx) error {
			message := fifo.Message{Queue: "orders", GroupID: "ada", Payload: item}
			if _, err := client.EnqueuePgxTx(ctx, tx, message); err != nil {
				return err
			}
			if stock == 0 {
				return errors.New("out of stock")
			}
			return nil
		})
	}
	fmt.Println(order("tea", 3))
	fmt.Println(order("milk", 0))

	jobs, err := client.Queue("orders").Jobs(ctx, fifo.Page{})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Printf("enqueued: %s\n", job.Payload)
	}
	// Output:
	// <nil>
	// out of stock
	// enqueued: tea
}

// Mails need no order: each goes as soon as a lane is free, fifty in a transaction.
func ExampleMessage_ungrouped() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "mails", Ungrouped: true, Payload: "to ada"},
		fifo.Message{Queue: "mails", Ungrouped: true, Payload: "to bob"},
	)
	if err != nil {
		log.Fatal(err)
	}
	sent := 0
	worker := &fifo.Worker{Client: client, Concurrency: 1}
	worker.HandleQueue("mails", fifo.Queue{
		BatchGroups: 50,
		Handler: func(context.Context, *fifo.Job) error {
			if sent++; sent == 2 {
				cancel()
			}
			return nil
		},
	})
	fmt.Println(worker.Run(ctx), sent)
	// Output: <nil> 2
}

// Of many changes to a document the last one is indexed, in half a minute. The window is shorter than the delay: a
// change that comes behind it is a job of its own.
func ExampleMessage_replace() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	if err := client.Queue("index").Configure(ctx, fifo.Settings{DedupWindow: 20 * time.Second}); err != nil {
		log.Fatal(err)
	}

	for _, text := range []string{"a", "a b", "a b c"} {
		got, err := client.Enqueue(ctx, fifo.Message{
			Queue: "index", GroupID: "doc-7", DedupID: "doc-7", Replace: true, Delay: 30 * time.Second, Payload: text,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(got[0].Duplicate, got[0].Replaced)
	}
	jobs, err := client.Queue("index").Jobs(ctx, fifo.Page{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(jobs), string(jobs[0].Payload))
	// Output:
	// false false
	// true true
	// true true
	// 1 a b c
}

// A webhook that is delivered twice is worked once.
func ExampleContentID() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	body := []byte(`{"event": "paid", "order": 7}`)
	id, err := fifo.ContentID(body) // or the event's own id, if it has one
	if err != nil {
		log.Fatal(err)
	}
	webhook := fifo.Message{Queue: "webhooks", GroupID: "order-7", DedupID: id, Payload: body}
	first, err := client.Enqueue(ctx, webhook)
	if err != nil {
		log.Fatal(err)
	}
	again, err := client.Enqueue(ctx, webhook)
	fmt.Println(again[0].Duplicate, again[0].ID == first[0].ID, err)

	depth, err := client.Queue("webhooks").Measure(ctx)
	fmt.Println(depth.Jobs, err)
	// Output:
	// true true <nil>
	// 1 <nil>
}

// A message that somebody waits for goes before the newsletters.
func ExampleMessage_priority() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	mail := func(to string, priority int) fifo.Message {
		return fifo.Message{Queue: "mail", GroupID: to, Payload: "for " + to, Priority: priority}
	}
	if _, err := client.Enqueue(ctx, mail("ada", 0), mail("ben", 0), mail("eve", 5)); err != nil {
		log.Fatal(err)
	}

	worker := &fifo.Worker{Client: client, Concurrency: 1, PollInterval: 100 * time.Millisecond}
	worker.Handle("mail", func(_ context.Context, job *fifo.Job) error {
		fmt.Println(string(job.Payload))
		return nil
	})
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: for eve
}
