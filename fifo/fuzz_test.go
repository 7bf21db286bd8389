package fifo_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A rig is what the inputs of a fuzz target share: a database, and a worker that is told of each job at once.
type rig struct {
	client  *fifo.Client
	settled chan *fifo.Job
}

// newRig returns one. The jobs of queue bad fail, with their payloads as the errors.
func newRig(f *testing.F) *rig {
	f.Helper()
	r := &rig{settled: make(chan *fifo.Job)}
	r.client = fifo.Open(pgtest.Pool(f), &fifo.Config{
		Logger: slog.New(slog.DiscardHandler),
		Hooks: []fifo.Hooks{{Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
			r.settled <- job
		}}},
	})
	w := &fifo.Worker{Client: r.client, Concurrency: 1}
	w.Handle("q", nop)
	w.Handle("bad", func(_ context.Context, job *fifo.Job) error {
		return fifo.DeadLetter(errors.New(string(job.Payload)))
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := beside(func() error { return w.Run(ctx) })
	f.Cleanup(func() {
		stop()
		require.NoError(f, <-ended)
		require.NoError(f, r.client.Close())
	})
	return r
}

// one waits for the end of the only job there is.
func (r *rig) one(t *testing.T) *fifo.Job {
	t.Helper()
	return receive(t, r.settled, "the job")
}

// A group id is refused as invalid, or comes out as it went in, whichever way it went in.
func FuzzGroupID(f *testing.F) {
	for _, id := range append(oddIDs,
		"", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "\ufffe", "\uffff", "\u200b", "\u00a0", "\n",
		"\x7f", "\u0085", "\u202e",
		strings.Repeat("x", 129), strings.Repeat("ü", 64)+"x", strings.Repeat("ü", 65),
	) {
		f.Add(id)
	}
	r := newRig(f)
	f.Fuzz(func(t *testing.T, id string) {
		msg := fifo.Message{Queue: "q", GroupID: id}
		_, err := r.client.Enqueue(t.Context(), msg)
		if groups.ValidateID("GroupID", id) != nil {
			require.ErrorIs(t, err, fifo.ErrInvalidMessage)
			return
		}
		require.NoError(t, err)
		require.True(t, utf8.ValidString(id) && id != "" && len(id) <= groups.MaxIDBytes)
		require.Equal(t, id, r.one(t).GroupID)

		tx, err := r.client.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = r.client.EnqueueTx(t.Context(), tx, msg)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.Equal(t, id, r.one(t).GroupID)
	})
}

// A payload comes out as it went in, byte for byte.
func FuzzPayload(f *testing.F) {
	for _, p := range []string{
		"", "\x00", "\xff", "\xed\xa0\x80", "\ufffe", `"\u0000"`, `{"a":1,"a":1}`, `\x00`, "NULL", "{}", `"`, `\`,
		"[" + strings.Repeat("1e131071,", 1000) + "0]",
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
	} {
		f.Add([]byte(p))
	}
	r := newRig(f)
	f.Fuzz(func(t *testing.T, p []byte) {
		msg := fifo.Message{Queue: "q", GroupID: "g", Payload: p}
		_, err := r.client.Enqueue(t.Context(), msg)
		if len(p) > fifo.MaxPayloadBytes {
			require.ErrorIs(t, err, fifo.ErrPayloadTooLarge)
			return
		}
		require.NoError(t, err)
		require.True(t, bytes.Equal(p, r.one(t).Payload))

		tx, err := r.client.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		msg.Payload = string(p)
		_, err = r.client.EnqueueTx(t.Context(), tx, msg)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.True(t, bytes.Equal(p, r.one(t).Payload))
	})
}

// Whatever a handler's error says, the failed attempt is recorded, with the text as far as it can be stored.
func FuzzErrorText(f *testing.F) {
	for _, s := range []string{
		"", "plain", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "\ufffe", `\u0000`, `"}`, "\u2028",
		strings.Repeat("\x00", 5000),
		strings.Repeat("€", 2000), strings.Repeat("x", 4095) + "€", strings.Repeat("\xff", 5000),
		strings.Repeat("\x80", 5000),
	} {
		f.Add(s)
	}
	r := newRig(f)
	f.Fuzz(func(t *testing.T, s string) {
		_, err := r.client.Enqueue(t.Context(), fifo.Message{Queue: "bad", GroupID: "g", Payload: s})
		require.NoError(t, err)
		id := r.one(t).ID
		letters, err := r.client.DeadLetters(t.Context(), fifo.Letters{})
		require.NoError(t, err)
		require.Len(t, letters, 1)
		require.Equal(t, id, letters[0].ID)
		require.Len(t, letters[0].Failures, 1)
		stored := letters[0].Failures[0].Error
		require.True(t, utf8.ValidString(stored))
		require.NotContains(t, stored, "\x00")
		require.LessOrEqual(t, len(stored), 4<<10)
		if len(s) <= 4<<10 && utf8.ValidString(s) && !strings.Contains(s, "\x00") {
			require.Equal(t, s, stored)
		}
		n, err := r.client.Queue("bad").DeleteDeadLetters(t.Context(), named(id))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
