package fifo

import (
	"context"
	"encoding/json"
	"time"
)

const (
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
	return s.list(ctx, "dead letters", deadLettersSQL, lettersSQL, page,
		of.IDs, of.Kind, of.Error)
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
