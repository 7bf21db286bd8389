package fifo

import (
	"fmt"
	"math"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schedule"
)

// MaxPayloadBytes is the largest encoded payload. Keep what is larger elsewhere, and send its name.
const MaxPayloadBytes = 1 << 20

// MaxDelay is the longest delay of a message.
const MaxDelay = 365 * 24 * time.Hour

// MaxPriority is the highest priority of a message.
const MaxPriority = schedule.MaxPriority

// A Message is what a producer sends. Queue is required, and GroupID unless the message is Ungrouped: at most 128 bytes
// of printable UTF-8 each.
type Message struct {
	Queue string
	// GroupID names the message group: its jobs run one at a time, in order.
	GroupID string
	// Ungrouped says that the job is ordered with nobody, and that no other waits for it. It gets a group of its own,
	// whose id is drawn: Job.GroupID. GroupID must be empty then. Queue.BatchGroups works many in one transaction.
	Ungrouped bool
	// Payload is kept byte for byte if it is a []byte, a json.RawMessage or a string, and encoded as JSON if it is
	// anything else; nil is the empty payload. At most MaxPayloadBytes. So for a handler made by JSON a string has to
	// be JSON: for JSON[string], give the text as a type of your own. A struct with unexported fields only (a
	// *bytes.Buffer, most errors) is ErrInvalidMessage, unless it has MarshalJSON or MarshalText.
	Payload any
	// Delay is how long after the enqueue the job may not run yet. Its group waits behind it: a reminder is Ungrouped,
	// or in a group of its own, unless the group is to wait. Rounded up to microseconds; at most MaxDelay.
	//
	// A program that may cancel the message has the handler read a flag in a table of its own: Scope.Delete is for
	// operators.
	Delay time.Duration
	// RunAt is when the job may run at the earliest, by the server's clock, instead of a Delay. Its group waits behind
	// it. A time that has passed is none. At most MaxDelay from now, by this process's clock; in microseconds.
	RunAt time.Time
	// Priority has the job's group go before groups with a lower one, of its queue or share: 0, which is the lowest, to
	// MaxPriority. It counts while the job is the head of its group, of which it overtakes none. Every tenth turn is
	// that of the group which has waited longest in the worker, whatever its priority. What a worker finds at its start
	// is in no order.
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
	// begin while the transaction that replaces is open. A job that was given back with no attempt counted, by Snooze
	// say, waits too. If somebody has a delayed or paused job locked, the call waits a quarter of a second at most: it
	// may be a claim that gives the job back.
	//
	// A job that runs, that was tried, or that somebody is changing stays as it is. So does one that a worker has
	// claimed and not begun, because a hook of the job before takes long. At REPEATABLE READ every job stays as it is,
	// unless the same call has enqueued it. Then the message is dropped, as a duplicate, and Receipt.Replaced is false.
	// The window may go on when the job is done. If the last message must not be lost: make DedupWindow shorter than
	// Delay (Settings), and when Replaced is false, enqueue again without a DedupID.
	//
	// In a batch of one group the jobs behind the first one wait, although the batch has them. If one is replaced, the
	// batch may begin it as it was. Then the batch is undone, and runs again with the newer one. It waits for the
	// transaction that replaces, a second at most for each job.
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
	if err := (groups.Key{Queue: m.Queue, GroupID: m.GroupID}).Validate(); err != nil {
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
