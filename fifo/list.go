package fifo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A Page says which part of a list to return. The zero value is the first 100. All lists are in the order of queue,
// group id and id. Names are compared byte by byte.
type Page struct {
	After string // only what is behind this place: the Cursor of the last one of the page before
	Limit int    // how many at most; 0 and negative mean 100
}

// A position is a place in lists.
type position struct {
	groups.Key
	ID int64
}

func (p position) cursor() string { return fmt.Sprintf("%x.%x.%d", p.Queue, p.GroupID, p.ID) }

// positionOf reads a cursor. It may be of what was stored by other means, whose names need not be printable.
func positionOf(cursor string) (p position, err error) {
	if cursor == "" {
		return p, nil
	}
	_, err = fmt.Sscanf(cursor, "%x.%x.%d", &p.Queue, &p.GroupID, &p.ID)
	if err != nil || p.cursor() != cursor || !storable(p.Queue) || !storable(p.GroupID) {
		return p, fmt.Errorf("%w: After %q is no Cursor", ErrInvalidID, cursor)
	}
	return p, nil
}

func (p Page) limit() int { return cmp.Or(max(p.Limit, 0), 100) }

// from returns the place behind which a list of the scope goes on, and the limit, or 0 if all of the scope is before
// after.
func (s Scope) from(after position, limit int) (position, int) {
	where := 0 // the scope, as seen from after
	switch s.level {
	case ofQueue:
		where = strings.Compare(s.queue, after.Queue)
	case ofGroup:
		where = cmp.Or(strings.Compare(s.queue, after.Queue), strings.Compare(s.group, after.GroupID))
	}
	switch {
	case where < 0:
		return after, 0
	case where > 0:
		// Before every id. A driver may write the number as a literal. PostgreSQL casts that before it negates it, so
		// the least int64 would be out of range.
		after = position{groups.Key{Queue: s.queue, GroupID: s.group}, -math.MaxInt64}
	}
	return after, limit
}

var (
	jobsSQL        = selectJobSQL + " FROM pgfifo.jobs WHERE "
	deadLettersSQL = selectLetterSQL + " FROM pgfifo.dead_letters WHERE "
)

// lettersSQL is what Letters choose: $5 ids (NULL: any), $6 kind and $7 part of the error of the last failure (empty:
// any).
const lettersSQL = ` AND ($5::bigint[] IS NULL OR id = ANY ($5::bigint[]))
		AND ($6::text = '' OR failures -> (-1) ->> 'kind' = $6)
		AND ($7::text = '' OR pg_catalog.strpos(failures -> (-1) ->> 'error', $7) > 0)`

// placeSQL is one range of the primary key: $1, $2, $3 are a position.
var placeSQL = map[level]string{
	ofAll:   "(queue, group_id, id) > ($1, $2, $3)",
	ofQueue: "queue = $1 AND (group_id, id) > ($2, $3)",
	ofGroup: "queue = $1 AND group_id = $2 AND id > $3",
}

// Jobs lists live jobs, those that wait and those that run, in the order of group id and id. A page is one index range,
// however many jobs there are. It returns ErrInvalidID also for a page whose After is no Cursor.
func (s Scope) Jobs(ctx context.Context, page Page) ([]Job, error) {
	return s.list(ctx, "jobs", jobsSQL, "", page)
}

// DeadLetters lists dead letters, in the order of Jobs and with its errors: the first 100 of those that are chosen, or
// of all if none are. To choose by a failure it may have to pass over many others.
func (s Scope) DeadLetters(ctx context.Context, of Letters) ([]Job, error) {
	if _, _, err := of.check(s); err != nil {
		return nil, err
	}
	page := Page{After: of.After, Limit: of.Limit}
	return s.list(ctx, "dead letters", deadLettersSQL, lettersSQL, page, of.IDs, of.Kind, of.Error)
}

// list reads a page of a table. The arguments are those of only, from $5 on.
func (s Scope) list(ctx context.Context, what, table, only string, page Page, args ...any) ([]Job, error) {
	after, err := positionOf(page.After)
	if err != nil {
		return nil, err
	}
	from, limit := s.from(after, page.limit())
	sql := table + placeSQL[s.level] + only + " ORDER BY queue, group_id, id LIMIT $4"
	args = append([]any{from.Queue, from.GroupID, from.ID, limit}, args...)
	return readAll(ctx, s, "list "+what+" of", sql, scanJob, args...)
}

// orZero is the time that t points to, if any.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// decoded decodes stored JSON. NULL, and JSON written by hand that is no T, give the zero T.
func decoded[T any](stored []byte) (t T) {
	if stored != nil && json.Unmarshal(stored, &t) != nil {
		return *new(T)
	}
	return t
}
