package fifo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
		tx, err := b.client.DB().BeginTx(t.Context(), nil) // the array literals of database/sql
		require.NoError(t, err)
		_, err = b.client.EnqueueTx(t.Context(), tx, msg)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
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
	for name, x := range map[string]struct {
		edit  func(m *fifo.Message)
		is    error
		field string
	}{
		"no queue": {func(m *fifo.Message) { m.Queue = "" }, groups.ErrInvalidID, "Queue is empty"},
		"long queue": {func(m *fifo.Message) {
			m.Queue = strings.Repeat("q", 129)
		}, groups.ErrInvalidID, "Queue"},
		"queue control": {func(m *fifo.Message) { m.Queue = "a\nb" }, groups.ErrInvalidID, "Queue"},
		"no group":      {func(m *fifo.Message) { m.GroupID = "" }, groups.ErrInvalidID, "GroupID is empty"},
		"long group": {func(m *fifo.Message) {
			m.GroupID = strings.Repeat("ü", 64) + "x"
		}, groups.ErrInvalidID, "GroupID"},
		"group NUL":         {func(m *fifo.Message) { m.GroupID = "a\x00" }, groups.ErrInvalidID, "GroupID"},
		"group not UTF-8":   {func(m *fifo.Message) { m.GroupID = "\xed\xa0\x80" }, groups.ErrInvalidID, "GroupID"},
		"group not printed": {func(m *fifo.Message) { m.GroupID = "a\u200b" }, groups.ErrInvalidID, "GroupID"},
		"dedup control":     {func(m *fifo.Message) { m.DedupID = "a\n" }, groups.ErrInvalidID, "DedupID"},
		"long dedup": {func(m *fifo.Message) {
			m.DedupID = strings.Repeat("d", 129)
		}, groups.ErrInvalidID, "DedupID"},
		"negative delay":    {func(m *fifo.Message) { m.Delay = -1 }, fifo.ErrInvalidMessage, "Delay"},
		"long delay":        {func(m *fifo.Message) { m.Delay = fifo.MaxDelay + 1 }, fifo.ErrInvalidMessage, "Delay"},
		"negative attempts": {func(m *fifo.Message) { m.MaxAttempts = -1 }, fifo.ErrInvalidMessage, "MaxAttempts"},
		"attempts": {func(m *fifo.Message) {
			m.MaxAttempts = math.MaxInt32 + 1
		}, fifo.ErrInvalidMessage, "MaxAttempts"},
		"priority": {func(m *fifo.Message) { m.Priority = -1 }, fifo.ErrInvalidMessage, "Priority"},
		"high priority": {func(m *fifo.Message) {
			m.Priority = fifo.MaxPriority + 1
		}, fifo.ErrInvalidMessage, "Priority"},
		"large priority":     {func(m *fifo.Message) { m.Priority = 1 << 40 }, fifo.ErrInvalidMessage, "Priority"},
		"ungrouped, and not": {func(m *fifo.Message) { m.Ungrouped = true }, fifo.ErrInvalidMessage, "GroupID"},
		"replaces nothing":   {func(m *fifo.Message) { m.Replace = true }, fifo.ErrInvalidMessage, "DedupID"},
		"delay and time": {func(m *fifo.Message) {
			m.Delay, m.RunAt = 1, time.Now()
		}, fifo.ErrInvalidMessage, "RunAt"},
		"time that is too far": {func(m *fifo.Message) {
			m.RunAt = time.Now().Add(fifo.MaxDelay + time.Hour)
		}, fifo.ErrInvalidMessage, "RunAt"},
		"time that never comes": {func(m *fifo.Message) {
			m.RunAt = time.Date(290000, 1, 1, 0, 0, 0, 0, time.UTC)
		}, fifo.ErrInvalidMessage, "RunAt"},
		"header without a name": {func(m *fifo.Message) {
			m.Headers = fifo.Headers{"": "v"}
		}, fifo.ErrInvalidMessage, "eader"},
		"header with a long name": {func(m *fifo.Message) {
			m.Headers = fifo.Headers{strings.Repeat("n", 129): ""}
		}, fifo.ErrInvalidMessage, "eader"},
		"header whose name is no text": {func(m *fifo.Message) {
			m.Headers = fifo.Headers{"\xff": ""}
		}, fifo.ErrInvalidMessage, "eader"},
		"header whose name has NUL": {func(m *fifo.Message) {
			m.Headers = fifo.Headers{"a\x00": ""}
		}, fifo.ErrInvalidMessage, "eader"},
		"header whose name has two lines": {func(m *fifo.Message) {
			m.Headers = fifo.Headers{"a\nb": ""}
		}, fifo.ErrInvalidMessage, "eader"},
		"channel":           {func(m *fifo.Message) { m.Payload = make(chan int) }, fifo.ErrInvalidMessage, "Payload"},
		"own encoder":       {func(m *fifo.Message) { m.Payload = broken{} }, errBroken, "Payload"},
		"panicking encoder": {func(m *fifo.Message) { m.Payload = panics{} }, errBroken, "does not encode"},
		"reader": {func(m *fifo.Message) {
			m.Payload = bytes.NewBufferString("pay a 100")
		}, fifo.ErrInvalidMessage, "Payload is a *bytes.Buffer"},
		"error":  {func(m *fifo.Message) { m.Payload = errOnPurpose }, fifo.ErrInvalidMessage, "*errors.errorString"},
		"hidden": {func(m *fifo.Message) { m.Payload = mute{"a", 1} }, fifo.ErrInvalidMessage, "sees no field"},
		"large bytes": {func(m *fifo.Message) {
			m.Payload = make([]byte, fifo.MaxPayloadBytes+1)
		}, fifo.ErrPayloadTooLarge, "Payload"},
		"large JSON": {func(m *fifo.Message) { // the quotes do it
			m.Payload = parcel{strings.Repeat("x", fifo.MaxPayloadBytes)}
		}, fifo.ErrPayloadTooLarge, "Payload"},
	} {
		bad := ok
		x.edit(&bad)
		ids, err := c.Enqueue(t.Context(), ok, bad, ok)
		require.Nil(t, ids, name)
		require.ErrorIs(t, err, fifo.ErrInvalidMessage, name)
		require.ErrorIs(t, err, x.is, name)
		require.Equal(t, err, told, name)
		require.ErrorContains(t, err, "message 2 of 3", name)
		require.ErrorContains(t, err, x.field, name)
		require.Equal(t, errors.Is(x.is, fifo.ErrPayloadTooLarge), errors.Is(err, fifo.ErrPayloadTooLarge), name)
	}
	_, err := c.Enqueue(t.Context(), ok)
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
		tx, err := b.client.DB().DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		plain.Payload = "sql"
		_, err = b.client.EnqueueTx(t.Context(), tx, plain, fifo.Message{Queue: "q", GroupID: id, Payload: "other"})
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
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

func TestDelay(t *testing.T) {
	b := newBed(t)
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
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
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
