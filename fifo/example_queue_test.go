package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Up to fifty clicks of a page are counted in one transaction. One that cannot be read fails alone.
func ExampleWorker_HandleQueue() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	worker := &fifo.Worker{Client: client}
	worker.HandleQueue("clicks", fifo.Queue{
		BatchJobs: 50,
		BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error {
			for i, job := range jobs {
				if string(job.Payload) == "garbage" { // those before it are done, those behind it run again
					fmt.Printf("batch of %d: %d counted\n", len(jobs), i)
					return fifo.BatchError{job.ID: fifo.DeadLetter(errors.New("not a click"))}
				}
			}
			fmt.Printf("batch of %d: all counted\n", len(jobs))
			stop()
			return nil
		},
	})
	var msgs []fifo.Message
	for _, payload := range []string{"click", "click", "garbage", "click"} {
		msgs = append(msgs, fifo.Message{Queue: "clicks", GroupID: "page-1", Payload: payload})
	}
	if _, err := client.Enqueue(ctx, msgs...); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// batch of 4: 2 counted
	// batch of 1: all counted
}

// Mail is tried twice, and does not wait for reports, however long they take: a lane is kept for it.
func ExampleQueue() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	sent := make(chan struct{})
	worker := &fifo.Worker{Client: client, Concurrency: 2}
	worker.HandleQueue("mail", fifo.Queue{
		MinLanes:    1,
		MaxAttempts: 2,
		Retry:       fifo.Backoff(0, 0),
		Handler: func(ctx context.Context, job *fifo.Job) error {
			fmt.Printf("%s: attempt %d of %d\n", job.Payload, job.Attempt(), job.MaxAttempts)
			if string(job.Payload) == "to nobody" {
				return errors.New("no such address")
			}
			close(sent)
			return nil
		},
	})
	var reports atomic.Int64
	worker.Handle("reports", func(ctx context.Context, job *fifo.Job) error {
		<-sent // a report takes longer than all mail
		if reports.Add(1) == 2 {
			stop()
		}
		return nil
	})
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "reports", GroupID: "ada"}, fifo.Message{Queue: "reports", GroupID: "bob"},
		fifo.Message{Queue: "mail", GroupID: "ada", Payload: "to nobody"},
		fifo.Message{Queue: "mail", GroupID: "ada", Payload: "to bob"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("reports:", reports.Load())
	// Output:
	// to nobody: attempt 1 of 2
	// to nobody: attempt 2 of 2
	// to bob: attempt 1 of 2
	// reports: 2
}

// One group is one job after the other, so a slow disk makes it slow. A counter can be read again from its events, so
// their completions do not wait for the disk.
func ExampleQueue_relaxed() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	worker := &fifo.Worker{Client: client}
	worker.HandleQueue("events", fifo.Queue{
		Relaxed: true,
		Handler: func(ctx context.Context, job *fifo.Job) error {
			fmt.Printf("%s\n", job.Payload) // with writes through job.Tx: a server's crash undoes both
			if string(job.Payload) == "third" {
				stop()
			}
			return nil
		},
	})
	_, err := client.Enqueue(ctx, // this is durable
		fifo.Message{Queue: "events", GroupID: "meter-1", Payload: "first"},
		fifo.Message{Queue: "events", GroupID: "meter-1", Payload: "second"},
		fifo.Message{Queue: "events", GroupID: "meter-1", Payload: "third"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// first
	// second
	// third
}

// A tenant with a thousand users keeps no other waiting: the tenants have the lanes in turn.
func ExampleQueue_share() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	var large atomic.Int64
	worker := &fifo.Worker{Client: client, Concurrency: 1}
	worker.HandleQueue("mail", fifo.Queue{
		Share: func(group string) string {
			tenant, _, _ := strings.Cut(group, "/")
			return tenant
		},
		Weights: map[string]int{"gold": 2},
		Handler: func(ctx context.Context, job *fifo.Job) error {
			if strings.HasPrefix(job.GroupID, "large/") {
				large.Add(1)
				return nil
			}
			fmt.Println(job.GroupID, "waited for all:", large.Load() == 1000)
			stop()
			return nil
		},
	})
	var msgs []fifo.Message
	for user := range 1000 {
		msgs = append(msgs, fifo.Message{Queue: "mail", GroupID: fmt.Sprintf("large/%d", user)})
	}
	msgs = append(msgs, fifo.Message{Queue: "mail", GroupID: "small/ada"})
	if _, err := client.Enqueue(ctx, msgs...); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// small/ada waited for all: false
}

// By day one report is made at a time. When the night comes, three may be.
func ExampleWorker_SetLanes() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	var together sync.WaitGroup
	together.Add(3)
	worker := &fifo.Worker{Client: client, Concurrency: 4}
	worker.HandleQueue("reports", fifo.Queue{
		MaxLanes: 1,
		Handler: func(ctx context.Context, job *fifo.Job) error {
			together.Done()
			together.Wait() // until three reports are made at once
			stop()
			return nil
		},
	})
	worker.Handle("clock", func(ctx context.Context, job *fifo.Job) error {
		fmt.Println("night")
		return worker.SetLanes("reports", 0, 3)
	})
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "reports", GroupID: "ada"},
		fifo.Message{Queue: "reports", GroupID: "bob"},
		fifo.Message{Queue: "reports", GroupID: "eve"},
		fifo.Message{Queue: "clock", GroupID: "night"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("reports:", worker.Stats().Succeeded-1) // and the clock
	// Output:
	// night
	// reports: 3
}

// A probe asks /readyz every now and then, as Kubernetes does.
func ExampleWorker_Ready() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	worker := &fifo.Worker{Client: client}
	worker.Handle("mail", func(ctx context.Context, job *fifo.Job) error { return nil })

	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := worker.Ready(); err != nil { // says what is missing: for the log, not for everybody
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	probe := func() int {
		response, err := http.Get(server.URL + "/readyz")
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}

	fmt.Println("before Run:", probe())
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()
	for range time.Tick(10 * time.Millisecond) {
		if probe() == http.StatusOK {
			fmt.Println("it can find and take jobs")
			break
		}
	}
	stop()
	fmt.Println(<-ended)
	fmt.Println("after Run:", probe())
	// Output:
	// before Run: 503
	// it can find and take jobs
	// <nil>
	// after Run: 503
}
