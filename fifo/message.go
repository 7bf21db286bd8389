package fifo

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schedule"
)

// MaxPayloadBytes is the largest encoded payload. Keep what is larger elsewhere, and send its name.
const MaxPayloadBytes = 1 << 20

// MaxEnqueueBytes is how much the payloads and headers of one call may have together. PostgreSQL takes 1 GiB of
// parameters with a statement, and a driver of database/sql may send two letters for a byte.
const MaxEnqueueBytes = 256 << 20

// MaxDelay is the longest delay of a message.
const MaxDelay = 365 * 24 * time.Hour

// MaxPriority is the highest priority of a message: 9.
const MaxPriority = schedule.MaxPriority

// A Message is what a producer sends. Queue is required, and GroupID unless the message is Ungrouped: at most 128 bytes
// of printable UTF-8 each.
type Message struct {
	Queue string
	// GroupID names the message group: its jobs run one at a time, in order.
	GroupID string
	// Ungrouped says that the job has no order with others: it waits for none, and none waits for it. It gets a group
	// of its own, with a drawn id: Job.GroupID. GroupID must be empty. Queue.BatchGroups works many in one transaction.
	Ungrouped bool
	// Payload is kept byte for byte if it is a []byte, a json.RawMessage or a string, and encoded as JSON if it is
	// anything else; nil is the empty payload, and a nil pointer the JSON null. At most MaxPayloadBytes. So for a
	// handler made by JSON a string has to be JSON: for JSON[string], give the text as a type of your own. A struct
	// with unexported fields only (a *bytes.Buffer, most errors) is ErrInvalidMessage, unless it has MarshalJSON or
	// MarshalText.
	Payload any
	// Delay is how long after the enqueue the job may run at the earliest. Its group waits behind it: a reminder is
	// Ungrouped, or in a group of its own, unless the group is to wait. Rounded up to microseconds; at most MaxDelay.
	//
	// A program that may cancel the message lets the handler read a flag in a table of its own: Scope.Delete is for
	// operators.
	Delay time.Duration
	// RunAt is when the job may run at the earliest, by the server's clock, instead of a Delay. Its group waits behind
	// it. A time that has passed means no delay. At most MaxDelay from now, by this process's clock; in microseconds.
	RunAt time.Time
	// Priority lets the job's group go before groups with a lower one, of its queue or share: 0, which is the lowest,
	// to MaxPriority. It counts while the job is the head of its group; the job overtakes none of its own group. Every
	// tenth turn is that of the group which has waited longest in the worker, whatever its priority. The groups that a
	// worker finds when it starts are in no order.
	Priority int
	// MaxAttempts is how often the job is tried before it is given up: see Queue.OnGiveUp. 0 means what the worker
	// says.
	MaxAttempts int
	// Headers go with the payload, and count with it for MaxPayloadBytes. Names are at most 128 bytes of printable
	// UTF-8, values any bytes.
	Headers Headers
	// DedupID names the message among those of its queue, or of its group (Settings.DedupByGroup): while it is
	// remembered, another message with it is a duplicate, which is not enqueued. See Receipt.Duplicate, ContentID. At
	// most 128 bytes of printable UTF-8; empty: none. If senders choose the id, refuse an empty one.
	DedupID string
	// Replace gives a job that waits under the same DedupID this Payload and these Headers, if it is of the same group,
	// or both are Ungrouped. The job keeps everything else: its place, its id, its time and the window. It does not
	// begin while the transaction that replaces is open; Scope.Terminate of its group ends that transaction. A job that
	// was given back with no attempt counted, by Snooze say, waits too. If somebody has a delayed or paused job locked,
	// the call waits a quarter of a second at most: it may be a claim that gives the job back.
	//
	// A job that runs, that was tried, or that somebody is changing stays as it is. So does one that a worker has
	// claimed and not begun, because a hook of the job before takes long. At REPEATABLE READ every job stays as it is,
	// unless the same call has enqueued it. If a job stays, the message is dropped as a duplicate, and Receipt.Replaced
	// is false. The id may still be remembered when the job is done: a message is a duplicate then, too. If the last
	// message must not be lost, make the queue's DedupWindow shorter than Delay. When Replaced is false, enqueue the
	// message again without a DedupID.
	//
	// In a batch of one group the jobs behind the first one wait, although the batch has them. If one is replaced, the
	// batch may begin it as it was. Then the batch is undone, and runs again with the newer one. It waits for the
	// transaction that replaces: a second at most, or two with a SessionLease. It waits for as long as it takes while
	// the pool of the worker's Client has no connection to spare, or if Worker.Direct has another login than that pool.
	Replace bool
}

// encode checks a message and returns its payload's bytes, and its headers or nil.
func (m Message) encode() (payload []byte, headers *string, err error) {
	if err := m.check(); err != nil {
		return nil, nil, err
	}
	return m.encodeContent()
}

// encodeContent is encode without a look at the rest.
func (m Message) encodeContent() (payload []byte, headers *string, err error) {
	if payload, err = encodePayload(m.Payload); err != nil {
		return nil, nil, err
	}
	if size := len(payload) + m.Headers.size(); size > MaxPayloadBytes {
		return nil, nil, tooLarge(size)
	}
	if headers, err = m.Headers.encode(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	return payload, headers, nil
}

func tooLarge(size int) error {
	return fmt.Errorf("%w: Payload and Headers have %d bytes, at most %d", ErrPayloadTooLarge, size, MaxPayloadBytes)
}

// check looks at everything but the payload and the headers.
func (m Message) check() error {
	if m.Ungrouped && m.GroupID != "" {
		return fmt.Errorf("%w: Ungrouped and GroupID %q exclude each other", ErrInvalidMessage, m.GroupID)
	}
	if err := groups.ValidateID("Queue", m.Queue); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	switch err := groups.ValidateID("GroupID", m.GroupID); {
	case m.GroupID == "":
		return fmt.Errorf("%w: %w: set it, or set Ungrouped", ErrInvalidMessage, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	if m.DedupID != "" {
		if err := groups.ValidateID("DedupID", m.DedupID); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidMessage, err)
		}
	}
	switch {
	case m.Replace && m.DedupID == "":
		return fmt.Errorf("%w: Replace needs a DedupID", ErrInvalidMessage)
	case m.Delay < 0:
		return fmt.Errorf("%w: Delay %v is negative", ErrInvalidMessage, m.Delay)
	case m.Delay > MaxDelay:
		return fmt.Errorf("%w: Delay %v is over %v", ErrInvalidMessage, m.Delay, MaxDelay)
	case !m.RunAt.IsZero() && m.Delay != 0:
		return fmt.Errorf("%w: Delay and RunAt exclude each other", ErrInvalidMessage)
	case time.Until(m.RunAt) > MaxDelay:
		return fmt.Errorf("%w: RunAt %v is over %v from now", ErrInvalidMessage, m.RunAt, MaxDelay)
	case m.Priority < 0 || m.Priority > MaxPriority:
		return fmt.Errorf("%w: Priority %d is not 0 to %d", ErrInvalidMessage, m.Priority, MaxPriority)
	case m.MaxAttempts < 0 || m.MaxAttempts > math.MaxInt32:
		return fmt.Errorf("%w: MaxAttempts %d is out of range", ErrInvalidMessage, m.MaxAttempts)
	}
	return nil
}

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
	b, entries, size := make(batch, len(msgs)), make([]entry, len(msgs)), 0
	for i, m := range msgs {
		ungrouped := m.Ungrouped && m.GroupID == ""
		if ungrouped {
			m.Ungrouped, m.GroupID = false, ownGroup()
		}
		payload, headers, err := m.encode()
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i+1, len(msgs), err)
		}
		if size += len(payload); headers != nil {
			size += len(*headers)
		}
		if size > MaxEnqueueBytes {
			return nil, fmt.Errorf("%w: the first %d of %d messages have more than %d bytes: enqueue them in "+
				"several calls", ErrPayloadTooLarge, i+1, len(msgs), MaxEnqueueBytes)
		}
		entries[i] = entry{
			queue: m.Queue, group: m.GroupID, ungrouped: ungrouped, payload: payload, headers: headers,
			delay: microseconds(m.Delay), maxAttempts: int32(m.MaxAttempts), priority: int32(m.Priority),
			dedupID: m.DedupID, replace: m.Replace,
		}
		if m.RunAt.Year() >= 2000 { // the server's clock says whether that has passed
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
