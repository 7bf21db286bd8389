package fifo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

type parcel struct {
	Name string `json:"name"`
}

type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { return nil, errBroken }

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic(errBroken) }

var errBroken = errors.New("broken")

// A payload comes out as it went in, whichever way it went in, and however bad it would be as jsonb or text.
func TestPayload(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1e131071,", 10_000), ",") + "]"
	full := bytes.Repeat([]byte{0xa5, 0}, fifo.MaxPayloadBytes/2)
	cases := []struct {
		payload any
		want    string
	}{
		{nil, ""},
		{"", ""},
		{[]byte(nil), ""},
		{[]byte{}, ""},
		{json.RawMessage(nil), ""},
		{json.RawMessage(`{"a": 1, "a":  2}`), `{"a": 1, "a":  2}`}, // not normalized
		{json.RawMessage(`not json`), `not json`},
		{"text", "text"},
		{`\x00 \\ ' " {} ,`, `\x00 \\ ' " {} ,`},
		{"NULL", "NULL"},
		{[]byte("\x00\xff\xfe\xed\xa0\x80\xc0\xaf"), "\x00\xff\xfe\xed\xa0\x80\xc0\xaf"},
		{"\xff\x00", "\xff\x00"},
		{every, string(every)},
		{`"\u0000\ud800"`, `"\u0000\ud800"`},
		{numbers, numbers},
		{deep, deep},
		{full, string(full)},
		{strings.Repeat("x", fifo.MaxPayloadBytes), strings.Repeat("x", fifo.MaxPayloadBytes)},
		{parcel{"Ada"}, `{"name":"Ada"}`},
		{&parcel{"Ada"}, `{"name":"Ada"}`},
		{(*parcel)(nil), "null"},
		{[]int(nil), "null"},
		{map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`},
		{42, "42"},
		{true, "true"},
	}
	b := newBed(t)
	var want []string
	for i, c := range cases {
		want = append(want, c.want)
		msg := fifo.Message{Queue: "q", GroupID: "g", Payload: c.payload}
		if i%2 == 0 {
			b.sendAll(msg)
			continue
		}
		p := producers["bun.Tx"](b) // the array literals of database/sql
		p.send(msg)
		require.NoError(t, p.commit())
	}
	for i, job := range b.jobs() {
		same(t, i, want[i], string(job.Payload))
		require.NotNil(t, job.Payload)
	}
	b.work(b.worker(nop))
	got := b.ledger.payloads()
	require.Len(t, got, len(want))
	for i := range want {
		same(t, i, want[i], got[i])
	}
}

// same compares payloads without filling the screen with them.
func same(t *testing.T, i int, want, got string) {
	t.Helper()
	if want != got {
		require.FailNow(t, "different payloads", "case %d: %.40q, %d bytes; %.40q, %d bytes", i, want,
			len(want), got, len(got))
	}
}

// What cannot be enqueued is refused before any SQL: this client's database does not exist.
func TestInvalidMessage(t *testing.T) {
	t.Parallel()
	var told error
	c := nowhere(t, func(cfg *fifo.Config) {
		cfg.Hooks = []fifo.Hooks{{Enqueue: func(ctx context.Context, _ []fifo.Message) (
			context.Context, func([]fifo.Receipt, error),
		) {
			return ctx, func(_ []fifo.Receipt, err error) { told = err }
		}}}
	})
	ok := fifo.Message{Queue: "q", GroupID: "g"}
	refused := func(bad fifo.Message, is error, says string) {
		t.Helper()
		what := fmt.Sprintf("%.200s", fmt.Sprint(bad))
		ids, err := c.Enqueue(t.Context(), ok, bad, ok)
		require.Nil(t, ids, what)
		require.ErrorIs(t, err, fifo.ErrInvalidMessage, what)
		require.ErrorIs(t, err, is, what)
		require.Equal(t, err, told, what)
		require.ErrorContains(t, err, "message 2 of 3", what)
		require.ErrorContains(t, err, says, what)
		require.Equal(t, errors.Is(is, fifo.ErrPayloadTooLarge), errors.Is(err, fifo.ErrPayloadTooLarge), what)
	}
	for says, list := range map[string][]fifo.Message{
		"Queue is empty": {{GroupID: "g"}, {}},
		"Queue":          {{Queue: strings.Repeat("q", 129), GroupID: "g"}, {Queue: "a\nb", GroupID: "g"}},
		"GroupID is empty: set it, or set Ungrouped": {{Queue: "q"}},
		"GroupID": {
			{Queue: "q", GroupID: strings.Repeat("ü", 64) + "x"},
			{Queue: "q", GroupID: "a\x00"},
			{Queue: "q", GroupID: "\xed\xa0\x80"},
			{Queue: "q", GroupID: "a\u200b"},
		},
		"DedupID": {deduped("g", "a\n"), deduped("g", strings.Repeat("d", 129))},
	} {
		for _, bad := range list {
			refused(bad, groups.ErrInvalidID, says)
		}
	}
	for says, list := range map[string][]fifo.Message{
		"Delay":       {{Delay: -1}, {Delay: fifo.MaxDelay + 1}},
		"MaxAttempts": {{MaxAttempts: -1}, {MaxAttempts: math.MaxInt32 + 1}},
		"Priority":    {{Priority: -1}, {Priority: fifo.MaxPriority + 1}, {Priority: 1 << 40}},
		"GroupID":     {{Ungrouped: true}},
		"DedupID":     {{Replace: true}},
		"RunAt": {
			{Delay: 1, RunAt: time.Now()},
			{RunAt: time.Now().Add(fifo.MaxDelay + time.Hour)},
			{RunAt: time.Date(290000, 1, 1, 0, 0, 0, 0, time.UTC)}, // it never comes
		},
		"eader": {
			{Headers: fifo.Headers{"": "v"}},
			{Headers: fifo.Headers{strings.Repeat("n", 129): ""}},
			{Headers: fifo.Headers{"\xff": ""}},
			{Headers: fifo.Headers{"a\x00": ""}},
			{Headers: fifo.Headers{"a\nb": ""}},
		},
		"Payload":                    {{Payload: make(chan int)}},
		"Payload is a *bytes.Buffer": {{Payload: bytes.NewBufferString("pay a 100")}},
		"*errors.errorString":        {{Payload: errOnPurpose}},
		"sees no field":              {{Payload: mute{"a", 1}}},
	} {
		for _, bad := range list {
			bad.Queue, bad.GroupID = "q", "g"
			refused(bad, fifo.ErrInvalidMessage, says)
		}
	}
	for _, x := range []struct {
		payload any
		is      error
		says    string
	}{
		{broken{}, errBroken, "Payload"},
		{panics{}, errBroken, "does not encode"},
		{make([]byte, fifo.MaxPayloadBytes+1), fifo.ErrPayloadTooLarge, "Payload"},
		{parcel{strings.Repeat("x", fifo.MaxPayloadBytes)}, fifo.ErrPayloadTooLarge, "Payload"}, // the quotes do it
	} {
		refused(fifo.Message{Queue: "q", GroupID: "g", Payload: x.payload}, x.is, x.says)
	}
	_, err := c.Enqueue(t.Context(), slices.Repeat([]fifo.Message{
		{Queue: "q", GroupID: "g", Payload: make([]byte, fifo.MaxPayloadBytes)},
	}, fifo.MaxEnqueueBytes/fifo.MaxPayloadBytes+1)...)
	require.ErrorIs(t, err, fifo.ErrPayloadTooLarge)
	require.ErrorContains(t, err, "the first 257 of 257 messages")
	_, err = c.Enqueue(t.Context(), ok)
	require.Error(t, err, "the control: this one does reach for the database")
	require.NotErrorIs(t, err, fifo.ErrInvalidMessage)
}

// Ids with the characters that array literals, JSON and SQL give a meaning to.
var oddIDs = []string{
	`"`, `'`, `\`, `\\`, `\"`, `,`, `{}`, `{a,"b"}`, `NULL`, `null`, `a b`, ` lead`, `trail `, `$1`, `?`,
	`?0`, `%s`, `--`, `/*`,
	`;DROP TABLE x`, `a/b`, `日本語`, `Ünï`, `😀`, `<&>`, "\ufffd", strings.Repeat("x", 128), strings.Repeat("ü", 64),
}

func TestOddIDs(t *testing.T) {
	b := newBed(t)
	want := make(map[groups.Key][]string)
	w := b.worker(nop)
	for i, id := range oddIDs {
		queue := fmt.Sprint(id, i) // and as queues
		if len(queue) > groups.MaxIDBytes {
			queue = id
		}
		w.Handle(queue, b.ledger.record(nop))
		plain := fifo.Message{Queue: queue, GroupID: id, Payload: "pgx"}
		b.sendAll(plain)
		p := producers["*sql.Tx"](b)
		plain.Payload = "sql"
		p.send(plain, fifo.Message{Queue: "q", GroupID: id, Payload: "other"})
		require.NoError(t, p.commit())
		want[groups.Key{Queue: queue, GroupID: id}] = []string{"pgx", "sql"}
		want[groups.Key{Queue: "q", GroupID: id}] = []string{"other"}
	}
	b.work(w)
	got := make(map[groups.Key][]string)
	for _, job := range b.ledger.starts {
		got[job.Group()] = append(got[job.Group()], string(job.Payload))
	}
	require.Equal(t, want, got)
}

// delaysBeginAtEnqueuedAt makes EnqueuedAt the time at which a Delay begins, so that a test can tell both exactly.
func (b *bed) delaysBeginAtEnqueuedAt() {
	b.t.Helper()
	b.exec("ALTER TABLE pgfifo.jobs ALTER enqueued_at SET DEFAULT statement_timestamp()")
}

func TestDelay(t *testing.T) {
	b := newBed(t)
	b.delaysBeginAtEnqueuedAt()
	for _, x := range []struct {
		delay time.Duration
		want  any // microseconds behind the enqueue
	}{
		{0, nil},
		{1, int64(1)},
		{time.Microsecond + 1, int64(2)},
		{time.Hour, int64(3_600_000_000)},
		{fifo.MaxDelay, fifo.MaxDelay.Microseconds()},
	} {
		id := b.sendAll(fifo.Message{Queue: "q", GroupID: x.delay.String(), Delay: x.delay})[0]
		got := query[any](b, `
			SELECT (extract(epoch FROM run_at - enqueued_at) * 1000000)::bigint FROM pgfifo.jobs WHERE id = $1`, id)
		require.Equal(t, x.want, got, x.delay)
	}
}

// A handler knows its job's headers, and since when it could run: behind a delay, and behind a backoff.
func TestRunAtInAHandler(t *testing.T) {
	pgtest.OverAll(t, oneAndBatches(5), func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		b.delaysBeginAtEnqueuedAt()
		const delay = 20 * time.Millisecond
		now := fifo.Message{Queue: "q", GroupID: "now", Headers: everyHeader()}
		b.sendAll(now, now)
		b.sendAll(fifo.Message{Queue: "q", GroupID: "later", Delay: delay, Headers: everyHeader()})
		b.work(b.each(batch, func(_ context.Context, job *fifo.Job) error {
			if job.GroupID == "now" && job.Attempt() == 1 {
				return fifo.RetryAfter(delay, errOnPurpose)
			}
			return nil
		}))
		for _, job := range b.ledger.starts {
			require.Equal(t, everyHeader(), job.Headers)
			switch {
			case job.GroupID == "later":
				require.Equal(t, job.EnqueuedAt.Add(delay), job.RunAt)
			case job.Attempt() == 1:
				require.Zero(t, job.RunAt)
			default:
				require.Greater(t, job.RunAt.Sub(job.EnqueuedAt), delay)
			}
		}
	})
}
