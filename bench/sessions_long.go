package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

const longQueue = "bench-long"

// besideLong has jobs of one queue run all the time, beside another queue with the default lease: its waits, its rate
// at the end, and the dead rows that vacuum could not remove.
func (s *sessions) besideLong(ctx context.Context, b *bench) error {
	var base *Result
	for _, session := range []bool{false, true} {
		l := &longBeside{sessions: s, session: session, vigil: newVigil()}
		r, err := l.run(ctx, b)
		if err != nil {
			return fmt.Errorf("session %t: %w", session, err)
		}
		if base == nil {
			base = &r
		} else {
			r.RatioTo, r.Ratio = "the rate beside the "+defaultLease, r.Rate/base.Rate
			r.Extra["p99_ratio"] = r.P99 / base.P99
			r.Goal = append(atLeast(0.95), atMost(1000, "dead_rows")...)
		}
		b.report(r)
	}
	return nil
}

// A longBeside is one run.
type longBeside struct {
	*sessions
	*vigil  // the long jobs
	session bool
	crew    *crew
	traffic *traffic
	dead    float64
	xids    int
}

// handle runs a job of either queue.
func (l *longBeside) handle(ctx context.Context, job *fifo.Job) error {
	if job.Queue != longQueue {
		return l.traffic.handle(ctx, job)
	}
	return l.stand(ctx)
}

// staff says what the worker needs for the long jobs: lanes, or not.
func (l *longBeside) staff(w *fifo.Worker) {
	q := fifo.Queue{Handler: l.crew.handle}
	if l.session {
		w.SessionConcurrency = l.long
	} else {
		w.Concurrency += l.long
		q.MinLanes, q.MaxLanes = l.long, l.long
	}
	w.HandleQueue(longQueue, q)
}

func (l *longBeside) run(ctx context.Context, b *bench) (Result, error) {
	c := &crew{
		db: b.database, groups: 2*l.groups + l.long, lanes: l.lanes, handler: l.handle, jobTimeout: -1,
		also: l.staff,
	}
	l.crew = c
	if err := c.own(ctx); err != nil {
		return Result{}, err
	}
	if err := c.configure(ctx, longQueue, fifo.Settings{SessionLease: l.session}); err != nil {
		return Result{}, err
	}
	l.traffic = newTraffic(max(int(l.rate*l.measure.Seconds()), 1), l.groups, even)
	l.traffic.arrive(l.rate)
	y := l.traffic.tally(l.drain + l.long)
	var drained time.Duration
	err := c.shift(ctx, y, func(ctx context.Context) (err error) {
		defer l.end() // also if something fails: the worker waits for its handlers
		if err := l.start(ctx, c, longQueue, l.groups, l.long); err != nil {
			return err
		}
		if err := l.traffic.send(ctx, c); err != nil {
			return err
		}
		sent := int64(l.long + len(l.traffic.passages))
		if err := until(ctx, func() (bool, error) { return c.ledger.count.Load() == sent, nil }); err != nil {
			return err
		}
		if drained, err = l.drainAll(ctx, y); err != nil {
			return err
		}
		return l.vacuum(ctx, b)
	})
	if err != nil {
		return Result{}, err
	}
	return l.result(drained), nil
}

// drainAll adds many jobs at once, in groups of their own, and waits for them. The long ones have run for long by then.
func (l *longBeside) drainAll(ctx context.Context, y *tally) (time.Duration, error) {
	c := l.crew
	sql := fmt.Sprintf("INSERT INTO %s (queue, group_id, payload) SELECT '%s', "+groupSQL+", int8send(n / $1::bigint) "+
		"FROM generate_series(0, $2::bigint - 1) AS n", c.table(), queue, "$3::bigint + n % $1::bigint")
	goal := y.count.Load() + int64(l.drain)
	c.filled += int64(l.drain)
	if _, err := c.db.pool.Exec(ctx, sql, l.groups, l.drain, l.groups+l.long); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := until(ctx, func() (bool, error) { return y.count.Load() >= goal, nil })
	return time.Since(begin), err
}

// vacuum tells what it could not remove, and how many transactions with an id have been open for half of the time.
func (l *longBeside) vacuum(ctx context.Context, b *bench) error {
	for _, table := range []string{"jobs", "queue_groups"} {
		if err := b.exec(ctx, "VACUUM "+l.crew.schema+"."+table); err != nil {
			return err
		}
	}
	err := b.pool.QueryRow(ctx, `SELECT sum(n_dead_tup) FROM pg_stat_user_tables
		WHERE schemaname = $1 AND relname IN ('jobs', 'queue_groups')`, l.crew.schema).Scan(&l.dead)
	if err != nil {
		return err
	}
	l.xids, err = b.oldTransactions(ctx, l.measure/2)
	if want := map[bool]int{false: l.long}[l.session]; err == nil && l.xids != want {
		err = fmt.Errorf("%d transactions of %d long jobs were open all the time, not %d", l.xids, l.long, want)
	}
	return err
}

func (l *longBeside) result(drained time.Duration) Result {
	woken := newHistogram()
	for _, w := range l.traffic.waits() {
		woken.record(w.sinceSent)
	}
	r := Result{
		System: "long, " + leaseName(l.session), Rate: float64(l.drain) / drained.Seconds(), Params: map[string]any{
			"long": l.long, "for": l.measure.String(), "rate": l.rate,
		},
		Extra: map[string]float64{"dead_rows": l.dead, "old_transactions": float64(l.xids)},
	}
	r.latencies(woken)
	return r
}
