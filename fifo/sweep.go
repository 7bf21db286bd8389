package fifo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// readCommitted is for what relies on a new snapshot in each statement, or on waiting for others that change the same
// rows. The database may have another level by default, at which that would go wrong, or fail.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// A sweeper does the housekeeping of a worker, every now and then, and tells of what somebody should look at.
type sweeper struct {
	*crew
	after      groups.Key      // the last group that was looked at
	afterQueue string          // the last queue that was looked at
	toldQueues map[string]bool // those without a handler
	toldKeys   map[int64]bool  // foreign keys, by their oids
}

func (s *sweeper) run(ctx context.Context) {
	if s.set.sweep < 0 {
		return
	}
	every(ctx, s.set.sweep, func() {
		swept := s.sweep(ctx)
		told := errors.Join(s.tellUnhandled(ctx), s.tellLeases(ctx), s.tellReferences(ctx))
		for _, err := range []error{swept, told} {
			if err != nil && ctx.Err() == nil {
				s.log.Warn("pgfifo: sweep failed", "error", err)
			}
		}
	})
}

// tellLeases warns of queues that have another lease now than their crews.
func (s *sweeper) tellLeases(ctx context.Context) error {
	client := s.worker.Client
	for _, c := range s.worker.lanes.crews() {
		leases, err := leasesOf(ctx, client, client.pool, c.set.names)
		if err != nil {
			return err
		}
		for _, name := range c.set.names {
			if leases[name] != c.set.kind {
				c.log.Warn("pgfifo: the queue's SessionLease was changed; this worker goes on with the lease "+
					"that it has until it is started again", "queue", name, "has", c.set.kind.name)
			}
		}
	}
	return nil
}

// tellUnhandled looks at the first group of each queue that the worker does not handle, and tells of each queue once
// whose first group has waited for many intervals of the sweep: nobody knows all that others handle.
func (s *sweeper) tellUnhandled(ctx context.Context) error {
	client := s.worker.Client
	// A worker that freezes in here must not keep its snapshot.
	bound := strconv.FormatInt(s.set.bounds.ServerSilence.Milliseconds(), 10)
	var firsts []schedule.First
	err := pgx.BeginTxFunc(ctx, client.pool, readCommitted, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout TO "+bound)
		if err == nil {
			firsts, err = schedule.Firsts(ctx, tx, client.schema, s.afterQueue, tuning.Rows)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fifo: look for queues without a handler: %w", err)
	}
	s.afterQueue = ""
	if len(firsts) == tuning.Rows {
		s.afterQueue = firsts[tuning.Rows-1].Queue
	}
	for i := range firsts {
		f := &firsts[i]
		_, handled := s.worker.queues[f.Queue]
		if handled || s.toldQueues[f.Queue] || f.Waits < times(tuning.Many, s.set.sweep) {
			continue
		}
		s.toldQueues[f.Queue] = true
		s.log.Warn("pgfifo: a job waits in a queue that this worker does not handle; another worker may",
			"queue", f.Queue, "group", f.GroupID, "waits", f.Waits.Round(time.Millisecond), "seen", f.Seen)
	}
	return nil
}

// tellReferences looks for foreign keys that refer to jobs or groups, and tells of each once. A row that refers to a
// job which is running hides it: see sql/references.sql.
func (s *sweeper) tellReferences(ctx context.Context) error {
	client := s.worker.Client
	err := each(ctx, pgxSession{client.pool}, client.schema.Qualify(statement("references")), func(r row) error {
		var oid int64
		var table, name string
		if err := r.Scan(&oid, &table, &name); err != nil || s.toldKeys[oid] {
			return err
		}
		s.toldKeys[oid] = true
		s.log.Warn("pgfifo: a foreign key refers to the library's tables: lost attempts may not be counted, and "+
			"verbs may take jobs that run; drop it, and keep the job's id without one",
			"table", table, "constraint", name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("fifo: look for foreign keys: %w", err)
	}
	return nil
}

var errSweeping = errors.New("fifo: another worker is sweeping")

// spent reports whether a part of a sweep that began then has used up its time: all parts together may take a
// twentieth of the interval. What is left waits for the next sweep.
func (s *sweeper) spent(begin time.Time) bool {
	return time.Since(begin) > s.set.sweep/time.Duration((1+len(expiring))*tuning.Spare)
}

// sweep does a bounded amount of housekeeping in short transactions, and goes on where it was the last time.
func (s *sweeper) sweep(ctx context.Context) (failed error) {
	client := s.worker.Client
	bound := strconv.FormatInt(s.set.bounds.ServerSilence.Milliseconds(), 10)
	for begin := time.Now(); ; {
		n := int64(0)
		err := pgx.BeginTxFunc(ctx, client.pool, readCommitted, func(tx pgx.Tx) error {
			var alone bool
			err := tx.QueryRow(ctx, statement("sweep"), "pgfifo sweep "+client.schema.String(), bound).Scan(&alone)
			if err != nil {
				return err
			}
			if !alone {
				return errSweeping
			}
			n, s.after, err = schedule.Collect(ctx, tx, client.schema, s.set.groupIdle, s.after, tuning.Rows)
			return err
		})
		if errors.Is(err, errSweeping) {
			return nil
		}
		if err != nil { // what has expired does not wait for that
			s.after, failed = groups.Key{}, err
			break
		}
		if n == 0 || s.after == (groups.Key{}) || s.spent(begin) {
			break
		}
	}
	for _, name := range expiring {
		n, err := s.expire(ctx, name)
		failed = errors.Join(failed, err)
		if n > 0 && name == "expire_dead_letters" {
			s.log.Info("pgfifo: dead letters expired", "count", n)
		}
	}
	return failed
}

// expiring are the statements that delete what has expired, one for each table.
var expiring = []string{"expire_dedup", "expire_dead_letters"}

// expire deletes what has expired, in transactions of tuning.Rows rows at most, and returns how many those were.
func (s *sweeper) expire(ctx context.Context, name string) (all int64, err error) {
	client := s.worker.Client
	for begin := time.Now(); ; {
		n := int64(0)
		err := pgx.BeginTxFunc(ctx, client.pool, readCommitted, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, client.schema.Qualify(statement(name)), tuning.Rows)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return all, fmt.Errorf("fifo: %s: %w", strings.ReplaceAll(name, "_", " "), err)
		}
		if all += n; n < tuning.Rows || s.spent(begin) {
			return all, nil
		}
	}
}
