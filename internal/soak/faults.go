package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// A kind is one kind of fault, with its share of all.
type kind struct {
	name  string
	share int
	make  func(ctx context.Context, r *run, rnd *rand.Rand) (bool, error)
}

// whose tells a worker's connections apart by what they said last.
const (
	scouts = `query ~
		'^(-- Lists the heads|-- Looks at the heads|-- Tells which of the|-- Makes the rows|SET synchronous_commit)'`
	listeners = `query LIKE 'LISTEN %'`
	lanes     = `NOT (` + scouts + `) AND NOT (` + listeners + `)`
)

var kinds = []kind{
	{"terminated lane", 30, terminate(lanes)},
	{"terminated scout", 5, terminate(scouts)},
	{"terminated listener", 5, terminate(listeners)},
	{string(sinError), 25, tell(sinError)},
	{string(sinPanic), 15, tell(sinPanic)},
	{string(sinTimeout), 5, tell(sinTimeout)},
	{"cancelled EnqueueTx", 10, cancelEnqueue},
	{"worker stopped and started", 5, restart},
}

// makeFaults makes the faults, each when its share of the jobs is done or of the time is over.
func (r *run) makeFaults(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(2, 3))
	var deck []kind
	for i := 0; i < r.Faults; {
		select {
		case <-r.ended: // as the time was over
			return nil
		default:
		}
		if 1.05*r.progress() < float64(i)/float64(r.Faults) { // done a little before the end
			if err := pause.For(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if len(deck) == 0 {
			for _, k := range kinds {
				for range k.share {
					deck = append(deck, k)
				}
			}
			rnd.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		k := deck[0]
		deck = deck[1:]
		made, err := k.make(ctx, r, rnd)
		if err != nil {
			return fmt.Errorf("soak: %s: %w", k.name, err)
		}
		if made {
			i++
			r.counts[k.name]++
			r.made.Store(int64(i))
		}
		if i%100 == 0 && made {
			_, _ = fmt.Fprintf(r.Log, "%6.0fs %8d jobs %6d faults\n", time.Since(r.start).Seconds(), r.done.Load(), i)
		}
	}
	return nil
}

// progress is how much of the soak is over, from 0 to 1.
func (r *run) progress() float64 {
	if r.For > 0 {
		return float64(time.Since(r.start)) / float64(r.For)
	}
	return float64(r.done.Load()) / float64(r.Jobs)
}

func terminate(whose string) func(context.Context, *run, *rand.Rand) (bool, error) {
	return func(ctx context.Context, r *run, _ *rand.Rand) (bool, error) {
		tag, err := r.pool.Exec(ctx, `SELECT pg_terminate_backend(pid)
			FROM (SELECT pid FROM pg_stat_activity
			      WHERE datname = current_database() AND application_name LIKE '`+workerName+`%' AND `+whose+`
			      ORDER BY random() LIMIT 1) victim`)
		return tag.RowsAffected() == 1, err
	}
}

// tell has a handler sin. It is a fault when a handler has heard. What it is told lies ready before the job that comes
// with it is enqueued: that job may be begun, and done, before this goroutine runs again, and be the last for now.
func tell(s sin) func(context.Context, *run, *rand.Rand) (bool, error) {
	return func(ctx context.Context, r *run, _ *rand.Rand) (bool, error) {
		r.sins <- s // there is room: the last one was heard
		_, err := r.client.Enqueue(ctx, fifo.Message{Queue: "plain", GroupID: sinners, Payload: "x"})
		if err != nil {
			return false, err
		}
		r.sent.Add(1)
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-r.heard:
			return true, nil
		case <-timer.C:
			return false, errStuck
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// cancelEnqueue enqueues in a transaction, and has the context end before or in the middle of it. Whatever that comes
// to, the transaction is rolled back: a job that exists all the same is one too many.
func cancelEnqueue(ctx context.Context, r *run, rnd *rand.Rand) (bool, error) {
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	short, cancel := context.WithTimeout(ctx, time.Duration(rnd.IntN(500))*time.Microsecond)
	defer cancel()
	_, _ = r.client.EnqueuePgxTx(short, tx, fifo.Message{Queue: "plain", GroupID: "0", Payload: "never"})
	return true, nil
}

// restart stops a worker, and starts it again when it has ended.
func restart(ctx context.Context, r *run, rnd *rand.Rand) (bool, error) {
	c := r.crews[rnd.IntN(len(r.crews))]
	c.stop()
	c.start(ctx)
	return true, nil
}
