package groups

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/schema"
)

// MaxReasonBytes is the longest reason of a pause, in bytes of UTF-8.
const MaxReasonBytes = 1024

// Pause stops a group, or with an empty GroupID a queue, from being worked. A job that is running ends normally. No
// claim that begins after Pause has returned (in a transaction of the caller's: after its commit) starts a job: each
// claim looks. Pausing what is paused replaces the reason, which is for people and may be empty: valid UTF-8 without a
// NUL, at most MaxReasonBytes. Else, and if the key is invalid, Pause returns ErrInvalidID.
func (a Admin) Pause(ctx context.Context, key Key, reason string) error {
	if len(reason) > MaxReasonBytes || !storable(reason) {
		return fmt.Errorf("%w: the reason is over %d bytes long, not valid UTF-8, or has a NUL",
			ErrInvalidID, MaxReasonBytes)
	}
	name, err := a.target(ctx, key)
	if err != nil {
		return err
	}
	_, err = a.change(ctx, func(db bun.IDB) execer {
		return db.NewInsert().
			Model(&Pause{Queue: key.Queue, GroupID: key.GroupID, Reason: reason}).
			ModelTableExpr("?.pauses AS p", name).
			Value("group_id", "?", key.GroupID). // the empty string is a value here, not a default
			ExcludeColumn("paused_at").
			On("CONFLICT (queue, group_id) DO UPDATE SET reason = EXCLUDED.reason")
	})
	if err != nil {
		return fmt.Errorf("groups: pause %v: %w", key, err)
	}
	return nil
}

// Resume undoes Pause of the same key. What was paused by itself stays paused: resuming a queue does not resume its
// paused groups. Resuming what is not paused does nothing. Workers notice at their next poll.
func (a Admin) Resume(ctx context.Context, key Key) error {
	name, err := a.target(ctx, key)
	if err != nil {
		return err
	}
	_, err = a.change(ctx, func(db bun.IDB) execer {
		return db.NewDelete().
			Model((*Pause)(nil)).ModelTableExpr("?.pauses AS p", name).
			Where("queue = ? AND group_id = ?", key.Queue, key.GroupID)
	})
	if err != nil {
		return fmt.Errorf("groups: resume %v: %w", key, err)
	}
	return nil
}

// Pauses returns the paused queues and groups, also those without jobs.
func (a Admin) Pauses(ctx context.Context) ([]Pause, error) {
	name, err := a.schemaIdent(ctx)
	if err != nil {
		return nil, err
	}
	var list []Pause
	err = a.DB.NewSelect().Model(&list).ModelTableExpr("?.pauses AS p", name).OrderExpr("queue, group_id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("groups: pauses: %w", err)
	}
	return list, nil
}

// Purge deletes the jobs of a group, or with an empty GroupID of a queue, that wait, and returns how many those were.
// A running job is left alone. Those behind it in a batch are not locked: they are deleted, and the batch is undone and
// runs again without them. Run it inside a transaction to look before you commit; the groups stand still until then.
func (a Admin) Purge(ctx context.Context, key Key) (int64, error) {
	name, err := a.target(ctx, key)
	if err != nil {
		return 0, err
	}
	waiting := a.DB.NewSelect().
		TableExpr("?.jobs AS w", name).ColumnExpr("w.queue, w.group_id, w.id").
		Where("w.queue = ?", key.Queue).
		For("UPDATE SKIP LOCKED")
	if key.GroupID != "" {
		waiting = waiting.Where("w.group_id = ?", key.GroupID)
	}
	n, err := a.change(ctx, func(db bun.IDB) execer {
		return db.NewDelete().
			With("waiting", waiting).
			TableExpr("?.jobs AS job", name).TableExpr("waiting").
			Where("job.queue = waiting.queue AND job.group_id = waiting.group_id AND job.id = waiting.id")
	})
	if err != nil {
		return 0, fmt.Errorf("groups: purge %v: %w", key, err)
	}
	return n, nil
}

// An execer is a query of bun's that changes rows.
type execer interface {
	Exec(ctx context.Context, dest ...any) (sql.Result, error)
}

// change runs a query, and returns how many rows it changed. It does so at READ COMMITTED, whatever the database's
// default is, so that it waits for others that change the same rows, or passes over them, and does not fail. In a
// transaction of the caller's the caller has chosen.
func (a Admin) change(ctx context.Context, query func(bun.IDB) execer) (n int64, err error) {
	run := func(ctx context.Context, db bun.IDB) error {
		res, err := query(db).Exec(ctx)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	}
	db, ok := a.DB.(*bun.DB)
	if !ok {
		err = run(ctx, a.DB)
		return n, err
	}
	err = db.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted},
		func(ctx context.Context, tx bun.Tx) error {
			return run(ctx, tx)
		})
	return n, err
}

// target checks a key whose GroupID may be empty, and returns the schema for bun.
func (a Admin) target(ctx context.Context, key Key) (bun.Name, error) {
	if err := ValidateID("Queue", key.Queue); err != nil {
		return "", err
	}
	if err := validateSome("GroupID", key.GroupID); err != nil {
		return "", err
	}
	return a.schemaIdent(ctx)
}

var errNoAdminDB = errors.New("groups: Admin has no DB")

// schemaIdent returns the schema for bun, if what bun writes can be sent.
func (a Admin) schemaIdent(ctx context.Context) (bun.Name, error) {
	if db, ok := a.DB.(*bun.DB); a.DB == nil || ok && db == nil {
		return "", errNoAdminDB
	}
	name, err := schema.Parse(a.Schema)
	if err != nil {
		return "", err
	}
	var set string // the database/sql driver may be any, so there is no asking the connection
	if err := a.DB.QueryRowContext(ctx, "SHOW "+conforming.Setting).Scan(&set); err != nil {
		return "", fmt.Errorf("groups: %w", err)
	}
	return bun.Name(name.String()), conforming.Of(set)
}
