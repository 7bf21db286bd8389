package fifo

import (
	"cmp"
	"fmt"
	"math"
	"strings"

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
		// Before every id. A driver may write it as a literal, behind which PostgreSQL casts before it negates, so that
		// the least number is none.
		after = position{groups.Key{Queue: s.queue, GroupID: s.group}, -math.MaxInt64}
	}
	return after, limit
}
