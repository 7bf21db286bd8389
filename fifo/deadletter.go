package fifo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/pgfifo/pgfifo/groups"
)

// Letters says which dead letters of a scope are meant: those with the given IDs, or those that failed as Kind and
// Error say, or All. These three exclude each other. With none of them a list has all, and a verb that changes
// something returns ErrInvalidID: say All.
type Letters struct {
	// IDs are the jobs'. Those that are not among the scope's dead letters are passed over. An empty slice that is not
	// nil means none, also in a list; nil is no choice.
	IDs []int64
	// Kind is that of the last failure, one of the Kind constants. Empty: any.
	Kind string
	// Error is a part of the last failure's Error, letter by letter. Empty: any.
	Error string
	// All means all of the queue or group.
	All bool
	// After begins behind a Cursor, in the order of lists, as that of a Page does.
	After string
	// Limit is how many. 0 and negative mean 100 in a list, and no limit in a verb that changes something: many
	// thousands at once are one long transaction, so go in steps.
	Limit int
}

// check returns the place behind which the Letters go on, and whether they choose any, or ErrInvalidID if they are
// invalid. The scope is checked first.
func (l *Letters) check(s Scope) (after position, choose bool, err error) {
	if err := s.validate(); err != nil {
		return after, false, err
	}
	if after, err = positionOf(l.After); err != nil {
		return after, false, err
	}
	if l.Kind != "" && !slices.Contains(failureKinds, l.Kind) {
		return after, false, fmt.Errorf("%w: Kind %q is none of the Kind constants", ErrInvalidID, l.Kind)
	}
	if !storable(l.Error) {
		return after, false, fmt.Errorf("%w: Error %q is not valid UTF-8, or has a NUL", ErrInvalidID, l.Error)
	}
	n := 0
	for _, named := range []bool{l.IDs != nil, l.Kind != "" || l.Error != "", l.All} {
		if named {
			n++
		}
	}
	if n > 1 {
		return after, false, fmt.Errorf("%w: of IDs, Kind or Error, and All there may be one", ErrInvalidID)
	}
	return after, n > 0, nil
}

// chosen returns the first arguments of redrive.sql and delete_dead_letters.sql, or nil if there is nothing to do. It
// returns ErrInvalidID if the Letters are invalid, or choose nothing.
func (l *Letters) chosen(s Scope) ([]any, error) {
	after, choose, err := l.check(s)
	if err != nil {
		return nil, err
	}
	if !choose {
		return nil, fmt.Errorf("%w: the Letters choose none: say IDs, Kind or Error, or All", ErrInvalidID)
	}
	from, some := s.from(after, 1)
	if l.IDs != nil && len(l.IDs) == 0 || some == 0 {
		return nil, nil
	}
	return []any{
		s.queue, s.groupOrNull(), from.GroupID, from.ID, l.IDs, l.Kind, l.Error, max(l.Limit, 0),
	}, nil
}

// A Redrive says which dead letters are to be jobs again, where, and with what.
type Redrive struct {
	Letters

	// ToTail puts them at the ends of their groups, under new ids, in the order that they had. The default is their
	// original places, under their old ids.
	ToTail bool
	// Payload and Headers replace those of one dead letter: the scope is a group then, and there is one of the IDs.
	// They are checked as a Message's are. It keeps its own if they are nil, as a nil []byte or json.RawMessage is.
	// Empty ones that are not nil replace its own.
	Payload any
	Headers Headers
}

// Redrive makes jobs of dead letters, to be tried anew, with all their attempts. Failures and EnqueuedAt stay.
//
// It returns the ids of the jobs, in the order in which lists have the letters: the same ids, unless they went to the
// tail. last is the Cursor of the last letter, or r.After if there was none. Steps that go on behind last do not meet a
// job again that goes back to its place and dies at once. With ToTail they do, under its new id. So do not loop until
// no letter is left: a job that dies at each try keeps the loop going.
//
// In its original place a job runs before those of its group that were enqueued later, except those that a worker has
// claimed before it hears of the redrive. A worker that hears no notifications learns of it when it next looks for
// work: within PollInterval, or four times as long as such a look takes if that is more. If there is a job with that id
// again, in a database that has lost commits, nothing is redriven, and Redrive returns the server's error (23505):
// redrive that one to the tail.
//
// At the tail it runs behind all that was enqueued before, as a message that is enqueued now does, also with
// Config.CommitOrder: then Redrive waits for open transactions that have enqueued to the same groups.
//
// It returns ErrInvalidID for Letters that are invalid or choose nothing, and for a Payload or Headers unless the scope
// is a group and IDs has one id. It returns ErrInvalidMessage for a Payload or Headers that are invalid.
func (s Scope) Redrive(ctx context.Context, r Redrive) (jobs []int64, last string, err error) {
	args, err := r.chosen(s)
	if err != nil {
		return nil, "", err
	}
	payload, headers, err := s.edit(ctx, &r)
	if err != nil {
		return nil, "", err
	}
	if args == nil {
		return nil, r.After, nil
	}
	letter, xid, placed := position{groups.Key{Queue: s.queue}, 0}, int64(0), make(hints)
	err = s.change(ctx, "redrive", statement("redrive"), func(row row) error {
		var job int64
		err := row.Scan(&letter.GroupID, &letter.ID, &job, &xid)
		jobs = append(jobs, job)
		placed.add(s.queue, letter.GroupID, job, !r.ToTail)
		return err
	}, append(args, r.ToTail, r.ToTail && s.client.cfg.CommitOrder, payload, headers)...)
	if err != nil {
		return nil, "", err
	}
	if len(jobs) == 0 {
		return nil, r.After, nil
	}
	s.announce(xid, func(h hints) { h.addAll(placed) })
	return jobs, letter.cursor(), nil
}

// edit returns the new payload and headers as redrive.sql has them: nil is the old ones.
func (s Scope) edit(ctx context.Context, r *Redrive) (payload, headers any, err error) {
	switch r.Payload.(type) {
	case []byte, json.RawMessage:
		if reflect.ValueOf(r.Payload).IsNil() {
			r.Payload = nil
		}
	}
	if r.Payload == nil && r.Headers == nil {
		return nil, nil, nil
	}
	if s.level != ofGroup || len(r.IDs) != 1 {
		return nil, nil, fmt.Errorf("%w: Payload and Headers are for one of the IDs of a group, not for %d of %v",
			ErrInvalidID, len(r.IDs), s)
	}
	edited := Message{Queue: s.queue, GroupID: s.group, Payload: r.Payload, Headers: r.Headers}
	bytes, object, err := edited.encode()
	if err != nil {
		return nil, nil, err
	}
	if r.Payload != nil {
		payload = bytes
	}
	if r.Headers != nil {
		headers = cmp.Or(object, &noHeaders)
	}
	if payload != nil && headers != nil {
		return payload, headers, nil
	}
	kept, err := s.DeadLetters(ctx, r.Letters) // a dead letter does not change
	for i := range kept {
		d := &kept[i]
		size := len(bytes) + r.Headers.size()
		if payload == nil {
			size += len(d.Payload)
		} else {
			size += d.Headers.size()
		}
		if size > MaxPayloadBytes {
			err = tooLarge(size)
		}
	}
	return payload, headers, err
}

var noHeaders = "{}"

// DeleteDeadLetters deletes dead letters for good, and returns how many there were. It returns ErrInvalidID for Letters
// that are invalid or choose nothing.
func (s Scope) DeleteDeadLetters(ctx context.Context, of Letters) (int, error) {
	args, err := of.chosen(s)
	if err != nil || args == nil {
		return 0, err
	}
	n := 0
	err = s.change(ctx, "delete dead letters of", statement("delete_dead_letters"), into(&n), args...)
	return n, err
}
