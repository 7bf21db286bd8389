package fifo_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// everyHeader has every kind of name and value.
func everyHeader() fifo.Headers {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return fifo.Headers{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "empty": "", "bytes": string(every),
		"NUL": "a\x00b", "control": "\x01\x1f\x7f\r\n\t", "quotes": `\x00 \\ ' " {} , NULL`,
		"é '\" ?0 $1 \\": "日本\u2028", "object": `{"base64": "AA=="}`, "number": "1", "null": "null",
		strings.Repeat("n", 128): strings.Repeat("v", 4096),
	}
}

// Headers come out as they went in, whichever way that was, and on every way that a job takes.
func TestHeaders(t *testing.T) {
	want := everyHeader()
	with := fifo.Message{Queue: "q", GroupID: "a", Headers: want, MaxAttempts: 1}
	without := fifo.Message{Queue: "q", GroupID: "b", Headers: fifo.Headers{}, MaxAttempts: 1}
	pgtest.OverAll(t, producers, func(t *testing.T, begin func(*bed) producer) {
		b := newBed(t)
		p := begin(b)
		for _, msgs := range [][]fifo.Message{{with}, {without}, {with, without, with}, {without, without}} {
			p.send(msgs...)
		}
		require.NoError(t, p.commit())
		b.sendAll(with)
		b.sendAll(without, with)
		check := func(group string, got fifo.Headers) {
			t.Helper()
			if group == "a" {
				require.Equal(t, want, got)
			} else {
				require.Nil(t, got)
			}
		}
		for _, j := range b.jobs() {
			check(j.GroupID, j.Headers)
		}
		ran := 0
		handler := func(_ context.Context, job *fifo.Job) error {
			check(job.GroupID, job.Headers)
			if ran++; ran <= 10 {
				return errBroken
			}
			return nil
		}
		b.work(b.worker(handler, oneLane))
		require.Equal(t, 10, ran)
		letters := b.deadLetters()
		require.Len(t, letters, 10)
		for _, d := range letters {
			check(d.GroupID, d.Headers)
		}
		require.Len(t, b.redrive(b.q, allAgain), 10)
		again := b.bare(nil) // the ledger knows of no redrive
		again.Concurrency = 1
		again.Handle("q", handler)
		b.work(again)
		require.Equal(t, 20, ran)
	})
}

// So they do in batches of both kinds.
func TestHeadersInBatches(t *testing.T) {
	pgtest.OverAll(t, batches(4), func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		var msgs []fifo.Message
		for i := range 8 {
			m := fifo.Message{Queue: "q", GroupID: string(rune('a' + i%4))}
			if i%3 == 0 {
				m.Headers = everyHeader()
			}
			msgs = append(msgs, m)
		}
		ids := b.sendAll(msgs...)
		sent := make(map[int64]fifo.Headers)
		for i, id := range ids {
			sent[id] = msgs[i].Headers
		}
		w := b.each(batch, func(_ context.Context, job *fifo.Job) error {
			require.Equal(t, sent[job.ID], job.Headers)
			return nil
		})
		b.work(w)
	})
}

func TestInvalidHeaders(t *testing.T) {
	for what, h := range map[string]fifo.Headers{
		"an empty name": {"": "v"}, "a long name": {strings.Repeat("n", 129): ""},
		"a name that is no text": {"\xff": ""},
		"a name with NUL":        {"a\x00": ""}, "a name with a line break": {"a\nb": ""},
	} {
		_, err := nowhere(t).Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: "g", Headers: h})
		require.ErrorIs(t, err, fifo.ErrInvalidMessage, what)
	}
	// They count with the payload.
	b := newBed(t)
	m := fifo.Message{
		Queue: "q", GroupID: "g", Payload: make([]byte, fifo.MaxPayloadBytes-1000),
		Headers: fifo.Headers{"name": strings.Repeat("\x00", 996)},
	}
	b.sendAll(m)
	m.Headers["name"] += "\x00"
	_, err := b.client.Enqueue(t.Context(), m)
	require.ErrorIs(t, err, fifo.ErrPayloadTooLarge)
	m.Headers = fifo.Headers{"name": strings.Repeat("x", 2*fifo.MaxPayloadBytes)}
	_, err = b.client.Enqueue(t.Context(), m)
	require.ErrorIs(t, err, fifo.ErrPayloadTooLarge)
	b.work(b.worker(nop))
}

// What an operator writes by hand is given as it stands, and what is no object is none: the job runs.
func TestHeadersByHand(t *testing.T) {
	b := newBed(t)
	all := map[string]fifo.Headers{
		`[1]`: nil, `"text"`: nil, `{}`: nil, `null`: nil,
		`{"n": 1, "o": {"a": [true]}, "z": null, "b": {"base64": "?"}, "c": {"base64": "AA==", "more": 1}}`: {
			"n": "1", "o": `{"a": [true]}`, "z": "null", "b": `{"base64": "?"}`, "c": `{"more": 1, "base64": "AA=="}`,
		},
	}
	want := make(map[int64]fifo.Headers)
	for stored, headers := range all {
		id := b.send("g", "")[0]
		b.exec("UPDATE pgfifo.jobs SET headers = $1::text::jsonb WHERE id = $2", stored, id)
		want[id] = headers
	}
	jobs := b.jobs()
	require.Len(t, jobs, len(all))
	for _, job := range jobs {
		require.Equal(t, want[job.ID], job.Headers)
	}
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		require.Equal(t, want[job.ID], job.Headers)
		return nil
	}))
}

// An Enqueue hook adds headers, and the caller's stay as they are.
func TestHookSetsHeaders(t *testing.T) {
	var settled []fifo.Headers
	b := newBed(t, func(cfg *fifo.Config) {
		cfg.Hooks = append(cfg.Hooks, fifo.Hooks{
			Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
				for i := range msgs {
					msgs[i].Headers["traceparent"] = "hook"
				}
				return ctx, nil
			},
			Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
				settled = append(settled, maps.Clone(job.Headers))
			},
		})
	})
	mine := fifo.Headers{"mine": "1"}
	b.sendAll(fifo.Message{Queue: "q", GroupID: "g", Headers: mine}, fifo.Message{Queue: "q", GroupID: "g"})
	require.Equal(t, fifo.Headers{"mine": "1"}, mine)
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		require.Equal(t, "hook", job.Headers["traceparent"])
		job.Headers["traceparent"] = "handler" // and the hooks behind it are told what was sent
		return nil
	}, oneLane))
	require.Equal(t, []fifo.Headers{{"mine": "1", "traceparent": "hook"}, {"traceparent": "hook"}}, settled)
}

func TestHeadersAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
		values := rapid.OneOf(rapid.String(), bytes)
		h := fifo.Headers(rapid.MapOf(rapid.StringMatching(`[a-zé"\\{ ]{1,20}`), values).Draw(t, "headers"))
		stored, err := json.Marshal(h)
		require.NoError(t, err)
		require.NotContains(t, string(stored), `\u0000`, "jsonb has no such character in a value")
		var got fifo.Headers
		require.NoError(t, json.Unmarshal(stored, &got))
		require.Equal(t, h, got)
	})
}

// A job may run from an absolute time on, by the server's clock.
func TestRunAt(t *testing.T) { overLeases(t, testRunAt) }

func testRunAt(t *testing.T, by lease) {
	pgtest.OverAll(t, producers, func(t *testing.T, begin func(*bed) producer) {
		b := by.on(newBed(t))
		at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
		p := begin(b)
		later := fifo.Message{Queue: "q", GroupID: "later", RunAt: at.In(time.FixedZone("", 3600))}
		past := fifo.Message{Queue: "q", GroupID: "past", RunAt: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)}
		p.send(later)
		recent := fifo.Message{Queue: "q", GroupID: "past", RunAt: time.Now().Add(-time.Minute)}
		p.send(past, later, recent)
		require.NoError(t, p.commit())
		for _, j := range b.jobs() {
			if j.GroupID == "later" {
				require.True(t, at.Equal(j.RunAt), "%v", j.RunAt)
			} else {
				require.Zero(t, j.RunAt)
			}
		}
		w := b.worker(nop)
		b.run(w)
		await(t, "what may run", func() bool { return b.count("jobs") == 2 })
		require.Len(t, b.jobs(), 2)
		b.exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp()")
		b.drained()
	})
}

func TestInvalidRunAt(t *testing.T) {
	t.Parallel()
	for what, m := range map[string]fifo.Message{
		"both":    {Delay: 1, RunAt: time.Now()},
		"too far": {RunAt: time.Now().Add(fifo.MaxDelay + time.Hour)},
		"never":   {RunAt: time.Date(290000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		m.Queue, m.GroupID = "q", "g"
		_, err := nowhere(t).Enqueue(t.Context(), m)
		require.ErrorIs(t, err, fifo.ErrInvalidMessage, what)
		require.NotErrorIs(t, err, fifo.ErrPayloadTooLarge, what)
	}
}
