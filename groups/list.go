package groups

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/schema"
)

// ErrNonconforming is returned by Admin and by Dial and Connect where standard_conforming_strings is off. There a
// backslash in a value could end the string that bun writes it as, and what follows would be read as SQL.
var ErrNonconforming = conforming.Err

//go:embed sql/list.sql
var listSQL string

// An Admin looks at groups and acts on them. It is a plain value: make one with a literal. All methods run on DB, so
// inside a bun.Tx they are part of that transaction. Each asks first whether strings are read as bun writes them.
type Admin struct {
	// DB is where to run. Required: without it all methods return an error.
	DB bun.IDB
	// Schema is where the tables live. Defaults to "pgfifo".
	Schema string
}

// A Status is what can be seen of a group that has jobs.
type Status struct {
	Queue       string    `bun:"queue"`
	GroupID     string    `bun:"group_id"`
	HeadID      int64     `bun:"head_id"`   // the job whose turn it is
	Attempts    int       `bun:"attempts"`  // the head's failed or lost attempts
	OldestAt    time.Time `bun:"oldest_at"` // when the head was enqueued
	DueAt       time.Time `bun:"due_at"`    // zero: the head may run now
	Queued      int       `bun:"queued"`    // jobs, the running one included; at most MaxCount are counted
	Paused      bool      `bun:"paused"`    // the group or its queue
	PauseReason string    `bun:"pause_reason"`
	Held        bool      `bun:"held"` // a worker is running the head
	// Who holds it, read from the lock itself: PostgreSQL's session of the worker. HeldSince is the start of its
	// transaction, that is of the job. Of a session of another role's, ClientAddr and HeldSince are empty, unless one's
	// own is a member of that role or of pg_read_all_stats.
	PID             int       `bun:"pid"`
	ApplicationName string    `bun:"application_name"`
	ClientAddr      string    `bun:"client_addr"`
	HeldSince       time.Time `bun:"held_since"`
}

// Key returns the group's key.
func (s Status) Key() Key { return Key{s.Queue, s.GroupID} }

// MaxCount is how many jobs of a group List counts at most: an exact count of a long group is slow.
const MaxCount = 10_000

// A Filter says which groups to list. The zero value lists the first 100 of all queues.
type Filter struct {
	Queue   string // only this queue
	GroupID string // only this group id
	Held    bool   // only groups with a running job
	Paused  bool   // only paused groups that have jobs
	After   Key    // only groups behind this one, in the order of Queue and GroupID bytes: the last one of a page
	Limit   int    // Defaults to 100, as negative does.
}

// validate checks what is text. A position may be of what was stored by other means, and need not be printable.
func (f Filter) validate() error {
	if err := validateSome("Queue", f.Queue); err != nil {
		return err
	}
	if err := validateSome("GroupID", f.GroupID); err != nil {
		return err
	}
	if !storable(f.After.Queue) || !storable(f.After.GroupID) {
		return fmt.Errorf("%w: After %q is not valid UTF-8, or has a NUL", ErrInvalidID, f.After)
	}
	return nil
}

// List returns the groups that have jobs, in the order of their keys.
//
// It reads one row per group and is not slowed down by long groups, but with Held or Paused it may have to pass over
// many others. It returns ErrInvalidID for a Filter with ids that cannot be.
func (a Admin) List(ctx context.Context, f Filter) ([]Status, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	name, err := a.schemaIdent(ctx)
	if err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	var list []Status
	sql := strings.ReplaceAll(listSQL, schema.Default+".", "?8.") // quoted by bun, which reads ? in a name as its own
	err = a.DB.NewRaw(sql, f.Queue, f.After.Queue, f.After.GroupID, f.Limit, MaxCount,
		f.Held, f.Paused, f.GroupID, name).Scan(ctx, &list)
	if err != nil {
		return nil, fmt.Errorf("groups: list: %w", err)
	}
	return list, nil
}

// A Depth is how much there is in a queue.
type Depth struct {
	Jobs        int64     `bun:"jobs"`         // those that wait and those that run
	Groups      int64     `bun:"groups"`       // groups with jobs
	OldestAt    time.Time `bun:"oldest_at"`    // when the oldest of them was enqueued; zero: there are none
	DeadLetters int64     `bun:"dead_letters"` // given up and not deleted
}

// Measure counts a queue, for gauges. It reads an index entry of every job: once a minute is fine for a million, once a
// second is not.
func (a Admin) Measure(ctx context.Context, queue string) (Depth, error) {
	name, err := a.target(ctx, Key{Queue: queue})
	if err != nil {
		return Depth{}, err
	}
	var d Depth
	err = a.DB.NewSelect().
		TableExpr("?.jobs AS job", name).
		ColumnExpr("count(*) AS jobs").
		ColumnExpr("pg_catalog.count(DISTINCT job.group_id) AS groups").
		ColumnExpr("min(job.enqueued_at) AS oldest_at").
		ColumnExpr("(SELECT count(*) FROM ?.dead_letters AS dead WHERE dead.queue = ?) AS dead_letters", name, queue).
		Where("job.queue = ?", queue).
		Scan(ctx, &d)
	if err != nil {
		return Depth{}, fmt.Errorf("groups: measure %q: %w", queue, err)
	}
	return d, nil
}
