package fifo

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/pgfifo/pgfifo/groups"
)

// A DeadLetterJob is a job that was given up. Its group went on without it.
type DeadLetterJob struct {
	bun.BaseModel `bun:"table:pgfifo.dead_letters,alias:dead"`

	Queue       string    `bun:"queue,pk"`
	GroupID     string    `bun:"group_id,pk"`
	ID          int64     `bun:"id,pk"` // the job's, which a redrive keeps
	Payload     []byte    `bun:"payload,notnull"`
	Attempts    int       `bun:"attempts,notnull"`
	MaxAttempts int       `bun:"max_attempts,nullzero"`
	EnqueuedAt  time.Time `bun:"enqueued_at,notnull"`
	DiedAt      time.Time `bun:"died_at,nullzero,notnull,default:statement_timestamp()"`
	Failures    []Failure `bun:"failures,type:jsonb,nullzero"` // oldest first: the last one is what killed it
}

// Group returns the key of the group that the job belonged to.
func (d *DeadLetterJob) Group() groups.Key { return groups.Key{Queue: d.Queue, GroupID: d.GroupID} }

// A Filter says which jobs or dead letters to list. The zero value lists the first 100 of all queues.
type Filter struct {
	Queue   string   // only this queue
	GroupID string   // only this group id
	After   Position // only those behind this one: the last one of a page
	Limit   int      // Defaults to 100, as negative does.
}

// A Position is a job's place in lists, which are in the order of queue, group id and id.
type Position struct {
	groups.Key
	ID int64
}

// Position returns the job's place in lists.
func (j *Job) Position() Position { return Position{j.Group(), j.ID} }

// Position returns the dead letter's place in lists.
func (d *DeadLetterJob) Position() Position { return Position{d.Group(), d.ID} }

// validate checks what is text. A position may be of what was stored by other means, and need not be printable.
func (f Filter) validate() error {
	if err := validateSome("Queue", f.Queue); err != nil {
		return err
	}
	if err := validateSome("GroupID", f.GroupID); err != nil {
		return err
	}
	if !storable(f.After.Queue) || !storable(f.After.GroupID) {
		return fmt.Errorf("%w: After %q is not valid UTF-8, or has a NUL", groups.ErrInvalidID, f.After.Key)
	}
	return nil
}

// validateSome is groups.ValidateID for an id that may be empty.
func validateSome(field, id string) error {
	if id == "" {
		return nil
	}
	return groups.ValidateID(field, id)
}

func (f Filter) apply(q *bun.SelectQuery) *bun.SelectQuery {
	if f.Queue != "" {
		q = q.Where("queue = ?", f.Queue)
	}
	if f.GroupID != "" {
		q = q.Where("group_id = ?", f.GroupID)
	}
	if f.After != (Position{}) {
		q = q.Where("(queue, group_id, id) > (?, ?, ?)", f.After.Queue, f.After.GroupID, f.After.ID)
	}
	return q.Order("queue", "group_id", "id").Limit(int64(orDefault(max(f.Limit, 0), 100)))
}

// Jobs lists live jobs, those that wait and those that run, in the order of queue, group id and id. A page is one index
// range, however many jobs there are, if Filter names the queue, or neither queue nor group. It returns
// groups.ErrInvalidID for a Filter with ids that cannot be.
func (c *Client) Jobs(ctx context.Context, f Filter) ([]Job, error) {
	var list []Job
	err := c.list(ctx, &list, "?.jobs AS job", f)
	return list, err
}

// DeadLetters lists dead letters, in the order of Jobs and with its errors.
func (c *Client) DeadLetters(ctx context.Context, f Filter) ([]DeadLetterJob, error) {
	var list []DeadLetterJob
	err := c.list(ctx, &list, "?.dead_letters AS dead", f)
	return list, err
}

func (c *Client) list(ctx context.Context, model any, table string, f Filter) error {
	if err := f.validate(); err != nil {
		return err
	}
	if err := c.checkPool(ctx); err != nil {
		return err
	}
	q := c.db.NewSelect().Model(model).ModelTableExpr(table, bun.Name(c.schema.String()))
	if err := f.apply(q).Scan(ctx); err != nil {
		return fmt.Errorf("fifo: list: %w", err)
	}
	return nil
}

// Redrive moves dead letters back to their original places in their groups, to be tried anew: those of a group with the
// given ids, or all of the group if none are given, or all of the queue if the group id is empty too. It returns how
// many there were; ids that are not among the dead letters are passed over. Jobs of the group that were enqueued later
// run after them, but for those that a worker has claimed before it hears of the redrive. A worker that hears no
// notifications learns of it when it next looks for work: within PollInterval, or twenty times as long as such a look
// takes if that is more.
func (c *Client) Redrive(ctx context.Context, key groups.Key, ids ...int64) (int, error) {
	if err := c.checkDeadLetters(ctx, key); err != nil {
		return 0, err
	}
	n, back := 0, make(hints)
	err := pgx.BeginTxFunc(ctx, c.pool, readCommitted, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, c.schema.Qualify(redriveSQL), key.Queue, key.GroupID, ids)
		if err != nil {
			return err
		}
		var group string
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&group, &id}, func() error {
			n++
			back.add(key.Queue, group, id, true)
			return nil
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("fifo: redrive %v: %w", key, err)
	}
	c.announce.say(func(h hints) { h.addAll(back) })
	return n, nil
}

// DeleteDeadLetters deletes dead letters for good, chosen as by Redrive. It returns how many there were. In both, a
// list of ids that is empty but not nil means none.
func (c *Client) DeleteDeadLetters(ctx context.Context, key groups.Key, ids ...int64) (int, error) {
	if err := c.checkDeadLetters(ctx, key); err != nil {
		return 0, err
	}
	q := c.db.NewDelete().Model((*DeadLetterJob)(nil)).
		ModelTableExpr("?.dead_letters AS dead", bun.Name(c.schema.String())).
		Where("queue = ?", key.Queue)
	if key.GroupID != "" {
		q = q.Where("group_id = ?", key.GroupID)
	}
	if ids != nil { // as redrive.sql: a list of ids that happens to be empty is not all of them
		q = q.Where("id = ANY (?)", pgdialect.Array(ids))
	}
	var n int64
	opts := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	err := c.db.RunInTx(ctx, opts, func(ctx context.Context, tx bun.Tx) error {
		res, err := q.Conn(tx).Exec(ctx)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("fifo: delete dead letters of %v: %w", key, err)
	}
	return int(n), nil
}

// checkDeadLetters checks a key whose group id may be empty.
func (c *Client) checkDeadLetters(ctx context.Context, key groups.Key) error {
	if err := groups.ValidateID("Queue", key.Queue); err != nil {
		return err
	}
	if err := validateSome("GroupID", key.GroupID); err != nil {
		return err
	}
	return c.checkPool(ctx)
}
