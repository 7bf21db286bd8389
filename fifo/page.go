package fifo

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/pgfifo/pgfifo/groups"
)

// A Page says which part of a list to return. The zero value is the first 100.
type Page struct {
	After Position // only what is behind this place: that of the last one of the page before
	Limit int      // how many at most. Defaults to 100, as negative does.
}

// A Position is a place in lists, which all are in the order of queue, group id and id. Names are compared byte by
// byte.
type Position struct {
	groups.Key
	ID int64
}

// String returns queue/group/id, for people.
func (p Position) String() string { return fmt.Sprintf("%v/%d", p.Key, p.ID) }

// Position returns the job's place in lists.
func (j *Job) Position() Position { return Position{j.Group(), j.ID} }

// Position returns the group's place in lists, which is its head's.
func (s *Status) Position() Position { return Position{s.Group(), s.HeadID} }

// check looks at what is text. A position may be of what was stored by other means, and need not be printable.
func (p Page) check() error {
	if !storable(p.After.Queue) || !storable(p.After.GroupID) {
		return fmt.Errorf("%w: After %q is not valid UTF-8, or has a NUL", ErrInvalidID, p.After.Key)
	}
	return nil
}

func (p Page) limit() int { return orDefault(max(p.Limit, 0), 100) }

// from returns the place behind which a list of the scope goes on, or false if all of the scope is before after.
func (s Scope) from(after Position) (Position, bool) {
	where := 0 // the scope, as seen from after
	switch s.level {
	case ofQueue:
		where = strings.Compare(s.queue, after.Queue)
	case ofGroup:
		where = cmp.Or(strings.Compare(s.queue, after.Queue), strings.Compare(s.group, after.GroupID))
	}
	if where > 0 {
		after = Position{groups.Key{Queue: s.queue, GroupID: s.group}, math.MinInt64}
	}
	return after, where >= 0
}
