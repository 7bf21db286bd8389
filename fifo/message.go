package fifo

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// MaxPayloadBytes is the largest encoded payload. Keep what is larger elsewhere, and send its name.
const MaxPayloadBytes = 1 << 20

// MaxDelay is the longest delay of a message.
const MaxDelay = 365 * 24 * time.Hour

// A Message is what a producer sends. Queue and GroupID are required: at most 128 bytes of printable UTF-8 each.
type Message struct {
	Queue string
	// GroupID names the message group: its jobs run one at a time, in order.
	GroupID string
	// Payload is kept byte for byte if it is a []byte, a json.RawMessage or a string, and encoded as JSON if it is
	// anything else; nil is the empty payload. At most MaxPayloadBytes. For a handler made by JSON[string] a text has
	// to be JSON: give it as a type of your own.
	Payload any
	// Delay is how long after the enqueue the job may not run yet. Its group waits behind it. Rounded up to
	// microseconds; at most MaxDelay.
	Delay time.Duration
	// MaxAttempts is how often the job is tried before it becomes a dead letter. 0 means what the worker says.
	MaxAttempts int
}

// encode checks a message and returns its payload's bytes.
func (m Message) encode() ([]byte, error) {
	if err := (groups.Key{Queue: m.Queue, GroupID: m.GroupID}).Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	switch {
	case m.Delay < 0:
		return nil, fmt.Errorf("%w: Delay %v is negative", ErrInvalidMessage, m.Delay)
	case m.Delay > MaxDelay:
		return nil, fmt.Errorf("%w: Delay %v is over %v", ErrInvalidMessage, m.Delay, MaxDelay)
	case m.MaxAttempts < 0 || m.MaxAttempts > math.MaxInt32:
		return nil, fmt.Errorf("%w: MaxAttempts %d is out of range", ErrInvalidMessage, m.MaxAttempts)
	}
	var payload []byte
	switch p := m.Payload.(type) {
	case nil:
		payload = []byte{}
	case []byte:
		payload = p
	case json.RawMessage:
		payload = p
	case string:
		payload = []byte(p)
	default:
		var b []byte
		var err error
		catch(&err, "Payload", func() error {
			b, err = json.Marshal(p)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%w: Payload does not encode: %w", ErrInvalidMessage, unencodable(err))
		}
		payload = b
	}
	if payload == nil { // a nil slice of a type above
		payload = []byte{}
	}
	if len(payload) > MaxPayloadBytes {
		return nil, fmt.Errorf("%w: Payload has %d bytes, at most %d",
			ErrPayloadTooLarge, len(payload), MaxPayloadBytes)
	}
	return payload, nil
}

// A batch is messages as columns, the way enqueue.sql takes them.
type batch struct {
	queues, groups []string
	payloads       [][]byte
	delays         []int64
	maxAttempts    []int32
}

func encode(msgs []Message) (*batch, error) {
	b := &batch{
		queues: make([]string, len(msgs)), groups: make([]string, len(msgs)), payloads: make([][]byte, len(msgs)),
		delays: make([]int64, len(msgs)), maxAttempts: make([]int32, len(msgs)),
	}
	for i, m := range msgs {
		payload, err := m.encode()
		if err != nil {
			return nil, fmt.Errorf("message %d of %d: %w", i+1, len(msgs), err)
		}
		b.queues[i], b.groups[i], b.payloads[i] = m.Queue, m.GroupID, payload
		b.delays[i] = int64((m.Delay + time.Microsecond - 1) / time.Microsecond)
		b.maxAttempts[i] = int32(m.MaxAttempts)
	}
	return b, nil
}
