package fifo

import (
	"fmt"
	"slices"
	"time"
)

// An entry is a message as it is stored, and what becomes of it.
type entry struct {
	queue, group string
	ungrouped    bool // the group is its own
	payload      []byte
	headers      *string // nil: none
	delay        int64   // in microseconds
	runAt        int64   // in microseconds since 1970; 0: not said
	maxAttempts  int32
	priority     int32

	dedupID string // "": none
	replace bool
	key     []byte // what the dedupID is remembered by, once it is taken
	first   *entry // the new message of this call with the same key, if this one is a duplicate of that

	Receipt
}

// A batch is what one call enqueues.
type batch []*entry

func encode(msgs []Message) (batch, error) {
	b, entries := make(batch, len(msgs)), make([]entry, len(msgs))
	for i, m := range msgs {
		ungrouped := m.Ungrouped && m.GroupID == ""
		if ungrouped {
			m.Ungrouped, m.GroupID = false, ownGroup()
		}
		payload, headers, err := m.encode()
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i+1, len(msgs), err)
		}
		entries[i] = entry{
			queue: m.Queue, group: m.GroupID, ungrouped: ungrouped, payload: payload, headers: headers,
			delay: microseconds(m.Delay), maxAttempts: int32(m.MaxAttempts), priority: int32(m.Priority),
			dedupID: m.DedupID, replace: m.Replace,
		}
		if m.RunAt.Year() >= 2000 { // whether that has passed, the server's clock says
			entries[i].runAt = m.RunAt.Add(time.Microsecond - 1).UnixMicro()
		}
		b[i] = &entries[i]
	}
	return b, nil
}

// column returns a field of the entries.
func column[T any](b batch, of func(*entry) T) []T {
	list := make([]T, len(b))
	for i, e := range b {
		list[i] = of(e)
	}
	return list
}

// columnOrNil is column, or nil if the field is zero in all of them.
func columnOrNil[T comparable](b batch, of func(*entry) T) []T {
	var zero T
	if !slices.ContainsFunc(b, func(e *entry) bool { return of(e) != zero }) {
		return nil
	}
	return column(b, of)
}

func (b batch) queues() []string { return column(b, func(e *entry) string { return e.queue }) }

func (b batch) payloads() [][]byte { return column(b, func(e *entry) []byte { return e.payload }) }

func (b batch) headers() []*string {
	return columnOrNil(b, func(e *entry) *string { return e.headers })
}

// columns are the arguments of enqueue.sql.
func (b batch) columns(commitOrder bool) []any {
	return []any{
		b.queues(), column(b, func(e *entry) string { return e.group }), b.payloads(),
		column(b, func(e *entry) int64 { return e.delay }), column(b, func(e *entry) int32 { return e.maxAttempts }),
		columnOrNil(b, func(e *entry) bool { return commitOrder && !e.ungrouped }), b.headers(),
		columnOrNil(b, func(e *entry) int64 { return e.runAt }),
		columnOrNil(b, func(e *entry) int32 { return e.priority }),
	}
}

// values are the arguments of enqueue_one.sql.
func (e *entry) values() []any {
	return []any{e.queue, e.group, e.payload, e.delay, e.maxAttempts, e.headers, e.runAt}
}

// receipts returns the answer for all messages of a call.
func (b batch) receipts() []Receipt {
	return column(b, func(e *entry) Receipt {
		if e.first != nil {
			e.ID = e.first.ID
		}
		return e.Receipt
	})
}
