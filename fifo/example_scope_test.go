package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A paused group waits, and the others go on.
func ExampleScope_Pause() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	account := client.Queue("payments").Group("account-7")
	was, jobs, err := account.Pause(ctx, "under audit")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paused already:", was, "jobs:", jobs)
	_, err = client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "account-7"}, fifo.Message{Queue: "payments", GroupID: "account-8"})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	worker := &fifo.Worker{Client: client}
	worker.Handle("payments", func(ctx context.Context, job *fifo.Job) error {
		fmt.Println(job.GroupID)
		if job.GroupID == "account-7" {
			stop()
			return nil
		}
		pauses, err := client.Pauses(ctx)
		if err != nil {
			return err
		}
		fmt.Println(pauses[0].GroupID, "is paused:", pauses[0].Reason)
		_, err = account.Resume(ctx)
		return err
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// paused already: false jobs: 0
	// account-8
	// account-7 is paused: under audit
	// account-7
}

// An exporter of metrics knows no queue beforehand.
func ExampleClient_Queues() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx, fifo.Message{Queue: "payments", GroupID: "account-7"},
		fifo.Message{Queue: "mail", GroupID: "ada"}, fifo.Message{Queue: "mail", GroupID: "bob"})
	if err != nil {
		log.Fatal(err)
	}
	queues, err := client.Queues(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range queues {
		depth, err := client.Queue(name).MeasureUpTo(ctx, 1000)
		fmt.Println(name, depth.Jobs, err)
	}
	// Output:
	// mail 2 <nil>
	// payments 1 <nil>
}

// A transaction looks at what a purge would leave, before it commits. The group stands still until then.
func ExampleScope_InPgx() {
	ctx := context.Background()
	pool := pgtest.ExamplePool()
	client := fifo.Open(pool, nil)
	for _, page := range []int{1, 2, 3} {
		_, err := client.Enqueue(ctx, fifo.Message{Queue: "print", GroupID: "printer-1", Payload: page})
		if err != nil {
			log.Fatal(err)
		}
	}

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback(ctx)
	printer := client.Queue("print").Group("printer-1").InPgx(tx)
	n, err := printer.Purge(ctx)
	fmt.Println("purged:", n, err)
	depth, err := printer.Measure(ctx)
	fmt.Println("left:", depth.Jobs, err)
	fmt.Println("rolled back:", tx.Rollback(ctx))

	depth, err = client.Queue("print").Measure(ctx)
	fmt.Println("left:", depth.Jobs, err)
	// Output:
	// purged: 3 <nil>
	// left: 0 <nil>
	// rolled back: <nil>
	// left: 3 <nil>
}

// An operator asks why a job does not run, and mends the one before it.
func ExampleScope_WhyJob() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	receipts, err := client.Enqueue(ctx,
		fifo.Message{Queue: "mail", GroupID: "ada", Payload: []byte("no JSON"), Delay: time.Hour},
		fifo.Message{Queue: "mail", GroupID: "ada", Payload: "hello"})
	if err != nil {
		log.Fatal(err)
	}
	mail := client.Queue("mail")
	why, err := mail.WhyJob(ctx, receipts[1].ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(why.State, "by", why.Ahead, why.HeadID == receipts[0].ID) // why.Reason() is a sentence

	head := why.HeadID
	if why, err = mail.WhyJob(ctx, head); err != nil {
		log.Fatal(err)
	}
	fmt.Println(why.State, time.Until(why.DueAt) > 50*time.Minute)

	err = mail.Edit(ctx, head, func(job *fifo.Job) error {
		job.Payload = []byte(`"mended"`)
		return nil
	})
	fmt.Println("edit:", err)
	fmt.Println("retry:", mail.RetryNow(ctx, head))
	fmt.Println("bury:", mail.Bury(ctx, receipts[1].ID, "sent by hand"))
	fmt.Println("delete:", errors.Is(mail.Delete(ctx, receipts[1].ID), fifo.ErrJobNotFound))
	why, err = mail.Group("ada").Why(ctx)
	fmt.Println(why.State, err)
	// Output:
	// behind by 1 true
	// delayed true
	// edit: <nil>
	// retry: <nil>
	// bury: <nil>
	// delete: true
	// due <nil>
}

// What waits in a group is put behind what waits in another.
func ExampleScope_Move() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "print", GroupID: "printer-1", Payload: "a"},
		fifo.Message{Queue: "print", GroupID: "printer-2", Payload: "b"},
		fifo.Message{Queue: "print", GroupID: "printer-1", Payload: "c"})
	if err != nil {
		log.Fatal(err)
	}
	printers := client.Queue("print")
	n, err := printers.Group("printer-1").Move(ctx, printers.Group("printer-2"))
	fmt.Println("moved:", n, err)
	jobs, err := printers.Jobs(ctx, fifo.Page{})
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.GroupID, string(job.Payload))
	}
	// Output:
	// moved: 2 <nil>
	// printer-2 b
	// printer-2 a
	// printer-2 c
}

// A handler that is stuck is told to end. Its job runs again, uncounted, when the group is resumed.
func ExampleScope_Cancel() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	if _, err := client.Enqueue(ctx, fifo.Message{Queue: "sync", GroupID: "partner-7"}); err != nil {
		log.Fatal(err)
	}
	partner := client.Queue("sync").Group("partner-7")

	stuck, canceled := make(chan struct{}), make(chan struct{})
	worker := &fifo.Worker{Client: client}
	attempts := 0
	worker.Handle("sync", func(ctx context.Context, job *fifo.Job) error {
		if attempts++; attempts == 1 {
			close(stuck)
			<-ctx.Done()
			fmt.Println(context.Cause(ctx))
			close(canceled)
			return ctx.Err()
		}
		fmt.Println("done, after", job.Attempts, "failures")
		return nil
	})
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	<-stuck
	for heard := false; !heard; { // a worker that has just begun may not listen yet
		if _, _, err := partner.Cancel(ctx, "the partner is down"); err != nil {
			log.Fatal(err)
		}
		select {
		case <-canceled:
			heard = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if _, err := partner.Resume(ctx); err != nil {
		log.Fatal(err)
	}
	if err := partner.WaitEmpty(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// fifo: canceled by an operator
	// done, after 0 failures
}
