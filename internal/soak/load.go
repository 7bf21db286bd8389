package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

var errStuck = errors.New("soak: it does not go on")

// queues are worked in the four ways there are.
var queues = []string{"plain", "each", "slice", "heads"}

const (
	jobTimeout = 500 * time.Millisecond
	backlog    = 2000 // producers wait while there are more jobs than that
)

// sinners is the group of jobs that come with what is told to a handler.
const sinners = "sinners"

// makeProgress makes the table in which handlers write how far their group is: it shows a job that is skipped, repeated
// or out of its order at once, and does not grow.
func (r *run) makeProgress(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, `CREATE TABLE progress (
		queue text, group_id text, last bigint NOT NULL DEFAULT 0, done bigint NOT NULL DEFAULT 0,
		PRIMARY KEY (queue, group_id))
		WITH (fillfactor = 50)`)
	if err != nil {
		return err
	}
	_, err = r.pool.Exec(ctx, `INSERT INTO progress (queue, group_id)
		SELECT q, g::text FROM unnest($1::text[]) q, generate_series(0, $2 - 1) g UNION ALL SELECT 'plain', $3`,
		queues, r.Groups, sinners)
	return err
}

// producers enqueue side by side, each to groups of its own: what overlaps in time has no order that could be checked.
const producers = 4

// produce enqueues n jobs, or for as long as Config.For says.
func (r *run) produce(ctx context.Context, producer, n int) error {
	rnd := rand.New(rand.NewPCG(1, uint64(producer)))
	for made := 0; made < n || r.For > 0 && !r.start.IsZero(); {
		if r.For > 0 && !r.start.IsZero() && time.Since(r.start) > r.For {
			return nil
		}
		for r.sent.Load()-r.done.Load() > backlog || r.hold(made, n) {
			if err := pause.For(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		size := 1 + rnd.IntN(20)
		if r.For == 0 || r.start.IsZero() {
			size = min(size, n-made)
		}
		msgs := make([]fifo.Message, size)
		for i := range msgs {
			msgs[i] = fifo.Message{
				Queue:   queues[rnd.IntN(len(queues))],
				GroupID: fmt.Sprint(producer + producers*rnd.IntN(r.Groups/producers)),
				Payload: "x",
			}
		}
		if err := r.enqueue(ctx, msgs, rnd.IntN(2) == 0); err != nil {
			return fmt.Errorf("soak: enqueue: %w", err)
		}
		r.sent.Add(int64(len(msgs)))
		made += len(msgs)
	}
	return nil
}

// hold tells a producer to keep its last jobs until all faults are made.
func (r *run) hold(made, n int) bool {
	return r.For == 0 && !r.start.IsZero() && float64(made) >= 0.97*float64(n) && int(r.made.Load()) < r.Faults
}

func (r *run) enqueue(ctx context.Context, msgs []fifo.Message, inTx bool) error {
	if !inTx {
		_, err := r.client.Enqueue(ctx, msgs...)
		return err
	}
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := r.client.EnqueuePgxTx(ctx, tx, msgs...); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// verify compares what was done with what was enqueued. Nothing may be left over, nor be a dead letter.
func (r *run) verify(ctx context.Context) error {
	var done, dead int64
	err := r.pool.QueryRow(ctx, "SELECT (SELECT sum(done) FROM progress), (SELECT count(*) FROM pgfifo.dead_letters)").
		Scan(&done, &dead)
	if err != nil {
		return err
	}
	if sent := r.sent.Load(); done != sent {
		r.wrong.add("%d jobs were enqueued, and %d have had their effect", sent, done)
	}
	if dead != 0 {
		r.wrong.add("%d dead letters", dead)
	}
	return nil
}

// problems are what was found wrong, for the report.
type problems struct {
	mu    sync.Mutex
	texts []string
}

func (p *problems) add(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.texts) < 20 {
		p.texts = append(p.texts, fmt.Sprintf(format, args...))
	}
}

func (p *problems) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.texts)
}
