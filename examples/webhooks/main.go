// Webhooks delivers events to tenants' endpoints, in order for each tenant and hundreds at once. While a call is under
// way, no transaction is open and no connection is taken (Settings.SessionLease).
//
// An endpoint that is busy has its tenant wait, one that is gone makes dead letters, another error is tried again. A
// call carries the event's id, which is the same in each attempt and behind a redrive, and a fencing token: with these
// an endpoint can take each event once, and nothing from a former holder.
//
// It makes its schema, webhooks_example, anew in the database that DATABASE_URL names, and serves the endpoints itself:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/webhooks
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const (
	schema = "webhooks_example"
	setup  = `DROP SCHEMA IF EXISTS webhooks_example CASCADE;
		CREATE SCHEMA webhooks_example;
		CREATE TABLE webhooks_example.deliveries (job bigint PRIMARY KEY, tenant text, at timestamptz DEFAULT now())`
	deliver = "INSERT INTO webhooks_example.deliveries (job, tenant) VALUES ($1, $2)"
	count   = "SELECT count(*) FROM webhooks_example.deliveries"
)

// An event is what a message says.
type event struct {
	ID   string `json:"id"` // the producer's: a job may get another id
	What string `json:"what"`
}

// A sender makes the calls. Its client has a timeout: nothing else ends a call that hangs.
type sender struct {
	http http.Client
	base string // of the endpoints' addresses
}

// handle delivers one event.
func (s *sender) handle(ctx context.Context, job *fifo.Job, e event) error {
	token, err := job.Fence(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/"+job.GroupID, bytes.NewReader(job.Payload))
	if err != nil {
		return fifo.DeadLetter(err) // it is the same the next time
	}
	req.Header.Set("Idempotency-Key", e.ID) // an attempt may be cut off behind the call
	req.Header.Set("Fencing-Token", strconv.FormatInt(token, 10))
	answer, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	switch status := errors.New(answer.Status); {
	case answer.StatusCode == http.StatusTooManyRequests: // no attempt is counted
		return fifo.Snooze(retryAfter(answer), status)
	case answer.StatusCode == http.StatusGone:
		return fifo.DeadLetter(status)
	case answer.StatusCode/100 != 2:
		return status
	}
	tx, err := job.PgxTx(ctx) // now a connection is taken, until the handler returns
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, deliver, job.ID, job.GroupID)
	return err
}

// retryAfter returns how long an endpoint wants to be left alone, which it says in seconds or as a date: at least a
// second, also if it says nothing.
func retryAfter(answer *http.Response) time.Duration {
	text := answer.Header.Get("Retry-After")
	if date, err := http.ParseTime(text); err == nil {
		return max(time.Until(date), time.Second)
	}
	seconds, _ := strconv.Atoi(text)
	return time.Duration(max(seconds, 1)) * time.Second
}

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
	if err = errors.Join(err, migrations.Up(ctx, pool, &migrations.Config{Schema: schema})); err != nil {
		return err
	}
	client := fifo.Open(pool, &fifo.Config{Schema: schema})
	defer func() { err = errors.Join(err, client.Close()) }()
	events := client.Queue("events")
	if err = events.Configure(ctx, fifo.Settings{SessionLease: true}); err != nil {
		return err
	}

	const tenants, each = 100, 3
	var msgs []fifo.Message
	for i := range tenants * each {
		msgs = append(msgs, fifo.Message{
			Queue: "events", GroupID: fmt.Sprint("tenant-", i%tenants),
			Payload: event{ID: fmt.Sprint("event-", i), What: fmt.Sprint("order ", i/tenants)},
		})
	}
	if _, err = client.Enqueue(ctx, msgs...); err != nil {
		return err
	}
	server := httptest.NewServer(newEndpoints())
	defer server.Close()
	s := &sender{http: http.Client{Timeout: 10 * time.Second}, base: server.URL}
	worker := &fifo.Worker{
		Client: client, Concurrency: 4, SessionConcurrency: tenants,
		Retry: fifo.Backoff(100*time.Millisecond, time.Minute),
	}
	worker.Handle("events", fifo.JSON(s.handle))
	work, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(work) }()
	err = events.WaitEmpty(work)
	done()
	if err = errors.Join(err, <-ended); err != nil {
		return err
	}
	dead, err := events.DeadLetters(ctx, fifo.Letters{})
	if err != nil {
		return err
	}
	var delivered int
	err = pool.QueryRow(ctx, count).Scan(&delivered)
	stats := worker.Stats()
	fmt.Printf("%d delivered, %d dead letters, %d put off, %d failed attempts\n",
		delivered, len(dead), stats.Snoozed, stats.Retried)
	if err == nil && (delivered != (tenants-1)*each || len(dead) != each || stats.Snoozed != 1 || stats.Retried != 1) {
		err = fmt.Errorf("%+v", stats)
	}
	return err
}

// newEndpoints returns the endpoints of all tenants, which take 200 ms for a call. One of them is gone. Another one is
// busy at first, and a third has a fault.
func newEndpoints() http.Handler {
	busy, fault := make(chan struct{}, 1), make(chan struct{}, 1)
	first := func(of chan struct{}) bool {
		select {
		case of <- struct{}{}:
			return true
		default:
			return false
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-time.After(200 * time.Millisecond)
		switch {
		case r.URL.Path == "/tenant-0":
			w.WriteHeader(http.StatusGone)
		case r.URL.Path == "/tenant-1" && first(busy):
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/tenant-2" && first(fault):
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}
