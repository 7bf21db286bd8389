package main

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/pgfifo/pgfifo/fifo"
)

// A ledger checks every job that is worked. The jobs of a group carry the numbers 0, 1, 2, ...; each attempt must have
// the next one, while no other job of its group runs. So nothing can be lost, repeated, reordered or overlapped unseen.
type ledger struct {
	groups []account
	most   int // where so many of a group may run at once, two that start together may be entered in either order
	count  atomic.Int64
	broken atomic.Pointer[error] // the first violation
	failed chan struct{}         // closed with it
}

// An account is what a ledger knows of one group.
type account struct {
	busy atomic.Int64
	next atomic.Int64
}

func newLedger(groups int) *ledger {
	return &ledger{groups: make([]account, groups), most: 1, failed: make(chan struct{})}
}

// groupID names a group, in the order of the numbers; groupSQL is the same in SQL, for a number %s.
func groupID(n int) string { return fmt.Sprintf("g%08d", n) }

const groupSQL = "'g' || lpad((%s)::text, 8, '0')"

func groupNumber(id string) (int, error) {
	if len(id) < 2 {
		return 0, fmt.Errorf("no group of this run: %q", id)
	}
	return strconv.Atoi(id[1:])
}

// begin enters the start of a job. The entry is to be ended by the returned function; it is nil after an error.
func (l *ledger) begin(job *fifo.Job) (func(), error) {
	g, err := groupNumber(job.GroupID)
	switch {
	case err != nil:
		return nil, l.fail(err)
	case g >= len(l.groups) || len(job.Payload) < 8:
		return nil, l.fail(fmt.Errorf("no job of this run: %d in %s", job.ID, job.GroupID))
	}
	a, n := &l.groups[g], int64(binary.BigEndian.Uint64(job.Payload))
	most := int64(l.most)
	if busy := a.busy.Add(1); busy > most {
		return nil, l.fail(fmt.Errorf("%d jobs of %s at once; the last one is number %d", busy, job.GroupID, n))
	}
	if next := a.next.Add(1) - 1; n <= next-most || n >= next+most {
		return nil, l.fail(fmt.Errorf("%s: number %d instead of %d", job.GroupID, n, next))
	}
	l.count.Add(1)
	return func() { a.busy.Add(-1) }, nil
}

// fail keeps the first violation.
func (l *ledger) fail(err error) error {
	err = fmt.Errorf("PROMISE BROKEN: %w", err)
	if l.broken.CompareAndSwap(nil, &err) {
		close(l.failed)
	}
	return err
}

// err returns the first violation, if there is one.
func (l *ledger) err() error {
	if err := l.broken.Load(); err != nil {
		return *err
	}
	return nil
}
