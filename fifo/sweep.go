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

// runSweeper sweeps every now and then.
func (c *crew) runSweeper(ctx context.Context) {
	if c.set.sweep < 0 {
		return
	}
	var after groups.Key
	onlooker := &onlooker{crew: c, told: make(map[string]bool)}
	references := &references{crew: c, told: make(map[int64]bool)}
	every(ctx, c.set.sweep, func() {
		var swept error
		after, swept = c.sweep(ctx, after)
		told := errors.Join(onlooker.look(ctx), c.worker.tellLeases(ctx), references.look(ctx))
		for _, err := range []error{swept, told} {
			if err != nil && ctx.Err() == nil {
				c.log.Warn("pgfifo: sweep failed", "error", err)
			}
		}
	})
}

var errSweeping = errors.New("fifo: another worker is sweeping")

// spent reports whether a part of a sweep that began then has used up its time: all parts together may take a
// twentieth of the interval. What is left waits for the next sweep.
func (c *crew) spent(begin time.Time) bool {
	return time.Since(begin) > c.set.sweep/time.Duration((1+len(expiring))*tuning.Spare)
}

// sweep does a bounded amount of housekeeping in short transactions, from the group behind after on.
func (c *crew) sweep(ctx context.Context, after groups.Key) (groups.Key, error) {
	client, failed := c.worker.Client, error(nil)
	bound := strconv.FormatInt(max(c.set.bounds.ServerSilence.Milliseconds(), 1), 10)
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
			n, after, err = schedule.Collect(ctx, tx, client.schema, c.set.groupIdle, after, tuning.Rows)
			return err
		})
		if errors.Is(err, errSweeping) {
			return after, nil
		}
		if err != nil { // what has expired does not wait for that
			after, failed = groups.Key{}, err
			break
		}
		if n == 0 || after == (groups.Key{}) || c.spent(begin) {
			break
		}
	}
	for _, name := range expiring {
		n, err := c.expire(ctx, name)
		failed = errors.Join(failed, err)
		if n > 0 && name == "expire_dead_letters" {
			c.log.Info("pgfifo: dead letters expired", "count", n)
		}
	}
	return after, failed
}

// expiring are the statements that delete what has expired, one for each table.
var expiring = []string{"expire_dedup", "expire_dead_letters"}

// expire deletes what has expired, in transactions of tuning.Rows rows at most, and returns how many those were.
func (c *crew) expire(ctx context.Context, name string) (all int64, err error) {
	client := c.worker.Client
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
		if all += n; n < tuning.Rows || c.spent(begin) {
			return all, nil
		}
	}
}
