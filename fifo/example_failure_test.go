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

// All invoices go through one bank. That it is down is not the job's fault: no attempt is counted. When more groups say
// so, the bank is asked ever less often until it answers.
func ExampleUnavailable() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx, fifo.Message{Queue: "invoices", GroupID: "ada", MaxAttempts: 1})
	if err != nil {
		log.Fatal(err)
	}
	worker := &fifo.Worker{Client: client}
	worker.Handle("invoices", func(context.Context, *fifo.Job) error {
		return fifo.Unavailable(errors.New("connection refused"))
	})
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}
	jobs, err := client.Queue("invoices").Jobs(ctx, fifo.Page{})
	fmt.Println(len(jobs), jobs[0].Attempts, err)
	// Output: 1 0 <nil>
}

// A quota that is used up is not the job's fault: no attempt is counted, and the group waits.
func ExampleSnooze() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx, fifo.Message{Queue: "exports", GroupID: "ada", MaxAttempts: 1})
	if err != nil {
		log.Fatal(err)
	}
	worker := &fifo.Worker{Client: client}
	worker.Handle("exports", func(context.Context, *fifo.Job) error {
		return fifo.Snooze(time.Minute, errors.New("no exports left in this minute"))
	})
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}
	jobs, err := client.Queue("exports").Jobs(ctx, fifo.Page{})
	fmt.Println(len(jobs), jobs[0].Attempts, err)
	// Output: 1 0 <nil>
}

// A service that is asked too often says when to come again.
func ExampleRetryAfter() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	worker := &fifo.Worker{Client: client}
	worker.Handle("sms", func(ctx context.Context, job *fifo.Job) error {
		if job.Attempt() == 1 {
			fmt.Println("too many requests")
			return fifo.RetryAfter(20*time.Millisecond, errors.New("too many requests"))
		}
		fmt.Printf("sent: %s\n", job.Payload)
		stop()
		return nil
	})
	if _, err := client.Enqueue(ctx, fifo.Message{Queue: "sms", GroupID: "ada", Payload: "hello"}); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// too many requests
	// sent: hello
}

// What will not get better is not tried again, and its group goes on.
func ExampleDeadLetter() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	worker := &fifo.Worker{Client: client}
	worker.Handle("mail", func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "to nobody" {
			return fifo.DeadLetter(errors.New("no such address"))
		}
		fmt.Printf("sent: %s\n", job.Payload)
		stop()
		return nil
	})
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "mail", GroupID: "ada", Payload: "to nobody"},
		fifo.Message{Queue: "mail", GroupID: "ada", Payload: "to bob"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}

	dead, err := client.Queue("mail").DeadLetters(context.Background(), fifo.Letters{})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range dead {
		fmt.Printf("dead letter: %s: %s\n", d.Payload, d.Failures[0].Error)
	}
	// Output:
	// sent: to bob
	// dead letter: to nobody: no such address
}

// A dead letter goes back to its place, before what was enqueued after it.
func ExampleScope_Redrive() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	mended := false
	printUntil := func(last int) {
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		worker := &fifo.Worker{Client: client}
		worker.Handle("print", fifo.JSON(func(ctx context.Context, job *fifo.Job, page int) error {
			if page == 1 && !mended {
				return fifo.DeadLetter(errors.New("unknown font"))
			}
			fmt.Println("page", page)
			if page == last {
				stop()
			}
			return nil
		}))
		if err := worker.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}
	page := func(n int) fifo.Message { return fifo.Message{Queue: "print", GroupID: "printer-1", Payload: n} }

	if _, err := client.Enqueue(ctx, page(1), page(2)); err != nil {
		log.Fatal(err)
	}
	printUntil(2)

	mended = true
	if _, err := client.Enqueue(ctx, page(3)); err != nil {
		log.Fatal(err)
	}
	back, _, err := client.Queue("print").Group("printer-1").Redrive(ctx, fifo.Redrive{
		Letters: fifo.Letters{Error: "font"},
	})
	fmt.Println("redriven:", len(back), err)
	printUntil(3)
	// Output:
	// page 2
	// redriven: 1 <nil>
	// page 1
	// page 3
}

// What has used up its attempts is a job of another queue, whose handler tells somebody.
func ExampleQueue_deadLetterQueue() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	worker := &fifo.Worker{Client: client}
	worker.HandleQueue("invoices", fifo.Queue{
		MaxAttempts:     1,
		DeadLetterQueue: "complaints",
		Handler: func(context.Context, *fifo.Job) error {
			return errors.New("no such customer")
		},
	})
	worker.Handle("complaints", func(_ context.Context, job *fifo.Job) error {
		fmt.Printf("%s: %s: %s\n", job.Headers[fifo.OriginQueue], job.Payload, job.Headers[fifo.OriginError])
		stop()
		return nil
	})
	_, err := client.Enqueue(ctx, fifo.Message{Queue: "invoices", GroupID: "ada", Payload: "invoice 7"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: invoices: invoice 7: no such customer
}

// A dead letter is mended, and goes behind what waits.
func ExampleScope_Redrive_edited() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx, fifo.Message{Queue: "sms", GroupID: "bob", Payload: "to: bop"})
	if err != nil {
		log.Fatal(err)
	}
	worker := &fifo.Worker{Client: client}
	worker.Handle("sms", func(_ context.Context, job *fifo.Job) error {
		if string(job.Payload) == "to: bop" {
			return fifo.DeadLetter(errors.New("unknown number"))
		}
		fmt.Printf("sent %s\n", job.Payload)
		return nil
	})
	work := func() {
		if _, err := worker.RunOne(ctx); err != nil {
			log.Fatal(err)
		}
	}
	work()
	dead, err := client.Queue("sms").DeadLetters(ctx, fifo.Letters{Error: "unknown number"})
	if err != nil {
		log.Fatal(err)
	}
	back, _, err := client.Queue("sms").Group("bob").Redrive(ctx, fifo.Redrive{
		Letters: fifo.Letters{IDs: []int64{dead[0].ID}}, Payload: "to: bob", ToTail: true,
	})
	fmt.Println(len(back), back[0] > dead[0].ID, err)
	work()
	// Output:
	// 1 true <nil>
	// sent to: bob
}

// A payment that cannot be made stops its account until an operator has decided.
func ExampleGiveUp_blockGroup() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: "a debit", MaxAttempts: 1},
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: "the next one"})
	if err != nil {
		log.Fatal(err)
	}
	worker := &fifo.Worker{Client: client}
	worker.HandleQueue("payments", fifo.Queue{
		OnGiveUp: fifo.BlockGroup,
		Handler: func(_ context.Context, job *fifo.Job) error {
			if string(job.Payload) == "a debit" {
				return errors.New("no such account")
			}
			fmt.Println(string(job.Payload), "is made")
			return nil
		},
	})
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}

	stopped, err := client.Queue("payments").Groups(ctx, fifo.Page{}, fifo.Paused)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range stopped {
		fmt.Println(s.GroupID, "with", s.Queued, "jobs:", s.LastFailure.Error)
		// Or Resume: it is tried again.
		if err := client.Queue(s.Queue).Bury(ctx, s.PauseJob, "the account is closed"); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// account-7 with 2 jobs: no such account
	// the next one is made
}
