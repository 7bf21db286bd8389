package fifo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schedule"
)

// Sweep adjusts housekeeping. Every worker tries, and one at a time does it: collect the rows of idle groups, and drop
// deduplication ids that have expired and dead letters, of any queue, that are older than its
// Settings.DeadLetterRetention. Missing group rows need no sweep: looking for work makes them.
//
// Besides, every worker looks for queues that it does not handle, of which nobody may know: a name with a typo. If the
// job at the head of such a queue's first group has been due for ten times Interval, 10 minutes by default, and is
// neither held nor paused, the worker logs a warning: once for each queue in a Run. It cannot know what other workers
// handle. If "seen" is false in the log, none that handles the queue has looked at the group yet; if it is true, those
// that do may be late, or gone. The first group is the one whose id sorts first; the others are not looked at.
type Sweep struct {
	// Interval is how often this worker tries to; it passes when another one is at it. Defaults to 1 minute; negative:
	// never.
	Interval time.Duration
	// GroupIdle is how old a group's row must be to be collected when the group has no jobs. Defaults to 10 minutes.
	GroupIdle time.Duration
}

func (s Sweep) withDefaults() Sweep {
	s.Interval = orDefault(s.Interval, time.Minute)
	s.GroupIdle = orDefault(s.GroupIdle, 10*time.Minute)
	return s
}

const (
	sweepBatch  = 1000 // rows per transaction
	sweepBudget = 50   // transactions per sweep: the rest waits for the next
)

// readCommitted is for what relies on a new snapshot in each statement, or on waiting for others that change the same
// rows. The database may have another level by default, at which that would go wrong, or fail.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// runSweeper sweeps every now and then.
func (c *crew) runSweeper(ctx context.Context) {
	if c.set.sweep.Interval < 0 {
		return
	}
	tick := time.NewTicker(c.set.sweep.Interval)
	defer tick.Stop()
	var after groups.Key
	onlooker := newOnlooker(c)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if after, err = c.sweep(ctx, after); err != nil && ctx.Err() == nil {
			c.log.Warn("pgfifo: sweep failed", "error", err)
		}
		if err := onlooker.look(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("pgfifo: sweep failed", "error", err)
		}
	}
}

var errSweeping = errors.New("fifo: another worker is sweeping")

// sweep does a bounded amount of housekeeping in short transactions, from the group behind after on.
func (c *crew) sweep(ctx context.Context, after groups.Key) (groups.Key, error) {
	client, failed := c.worker.Client, error(nil)
	bound := strconv.FormatInt(max(c.worker.Session.Bound().Milliseconds(), 1), 10)
	for range sweepBudget {
		n := int64(0)
		err := pgx.BeginTxFunc(ctx, client.pool, readCommitted, func(tx pgx.Tx) error {
			var alone bool
			err := tx.QueryRow(ctx, sweepSQL, "pgfifo sweep "+client.schema.String(), bound).Scan(&alone)
			if err != nil {
				return err
			}
			if !alone {
				return errSweeping
			}
			n, after, err = schedule.Collect(ctx, tx, client.schema, c.set.sweep.GroupIdle, after, sweepBatch)
			return err
		})
		if errors.Is(err, errSweeping) {
			return after, nil
		}
		if err != nil { // what has expired does not wait for that
			after, failed = groups.Key{}, err
			break
		}
		if n == 0 || after == (groups.Key{}) {
			break
		}
	}
	_, badIDs := c.expire(ctx, "deduplication ids", expireDedupSQL)
	n, badLetters := c.expire(ctx, "dead letters", expireSQL)
	if n > 0 {
		c.log.Info("pgfifo: dead letters expired", "count", n)
	}
	return after, errors.Join(failed, badIDs, badLetters)
}

// expire deletes what has expired, in transactions of sweepBatch rows at most, and returns how many those were.
func (c *crew) expire(ctx context.Context, what, sql string) (all int64, err error) {
	client := c.worker.Client
	for range sweepBudget {
		n := int64(0)
		err := pgx.BeginTxFunc(ctx, client.pool, readCommitted, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, client.schema.Qualify(sql), sweepBatch)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return all, fmt.Errorf("fifo: expire %s: %w", what, err)
		}
		if all += n; n < sweepBatch {
			break
		}
	}
	return all, nil
}
