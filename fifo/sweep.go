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

var errSweeping = errors.New("fifo: another worker is sweeping")

// sweep does a bounded amount of housekeeping in short transactions, and goes on where it was the last time.
func (s *sweeper) sweep(ctx context.Context) error {
	client := s.worker.Client
	bound := strconv.FormatInt(s.set.bounds.ServerSilence.Milliseconds(), 10)
	_, failed := s.inSteps(ctx, func(tx pgx.Tx) (n int64, more bool, err error) {
		var alone bool
		err = tx.QueryRow(ctx, statement("sweep"), "pgfifo sweep "+client.schema.String(), bound).Scan(&alone)
		if err != nil {
			return 0, false, err
		}
		if !alone {
			return 0, false, errSweeping
		}
		n, s.after, err = schedule.Collect(ctx, tx, client.schema, s.set.groupIdle, s.after, tuning.Rows)
		return n, n > 0 && s.after != (groups.Key{}), err
	})
	if errors.Is(failed, errSweeping) {
		return nil
	}
	if failed != nil { // what has expired does not wait for that
		s.after = groups.Key{}
	}
	for _, name := range expiring {
		n, err := s.inSteps(ctx, func(tx pgx.Tx) (int64, bool, error) {
			tag, err := tx.Exec(ctx, client.schema.Qualify(statement(name)), tuning.Rows)
			return tag.RowsAffected(), tag.RowsAffected() >= tuning.Rows, err
		})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("fifo: %s: %w", strings.ReplaceAll(name, "_", " "), err))
		}
		if n > 0 && name == "expire_dead_letters" {
			s.log.Info("pgfifo: dead letters expired", "count", n)
		}
	}
	return failed
}

// expiring are the statements that delete what has expired, one for each table: tuning.Rows rows at most.
var expiring = []string{"expire_dedup", "expire_dead_letters"}

// inSteps calls f in one transaction after another while there is more, and returns how many rows they have deleted.
// All parts of a sweep together may take a twentieth of the interval. What is left waits for the next sweep.
func (s *sweeper) inSteps(
	ctx context.Context, f func(pgx.Tx) (n int64, more bool, err error),
) (all int64, err error) {
	for begin := time.Now(); ; {
		n, more := int64(0), false
		err := pgx.BeginTxFunc(ctx, s.worker.Client.pool, readCommitted, func(tx pgx.Tx) (err error) {
			n, more, err = f(tx)
			return err
		})
		if err != nil {
			return all, err
		}
		spent := time.Since(begin) > s.set.sweep/time.Duration((1+len(expiring))*tuning.Spare)
		if all += n; !more || spent {
			return all, nil
		}
	}
}
