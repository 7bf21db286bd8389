package fifo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// What a sweep finds that somebody should look at.

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

// tellUnhandled looks at the first group of each queue that the worker does not handle, and warns, once for each queue,
// if that group has waited for many intervals of the sweep. Others may handle the queue: nobody knows.
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

// tellReferences looks for foreign keys that refer to jobs or groups, and warns of each once. A row that refers to a
// running job hides who has the job: see sql/references.sql.
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
