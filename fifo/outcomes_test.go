package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

var errOnPurpose = errors.New("on purpose")

// failing is a handler that fails with err as long as a job's attempt is at most n.
func failing(n int, err error) fifo.Handler {
	return func(_ context.Context, job *fifo.Job) error {
		if job.Attempt() <= n {
			return err
		}
		return nil
	}
}

// panicking is the same for one that panics.
func panicking(n int, value any) fifo.Handler {
	return func(_ context.Context, job *fifo.Job) error {
		if job.Attempt() <= n {
			panic(value)
		}
		return nil
	}
}

// failingOn is a handler that fails with err where the payload is that.
func failingOn(payload string, err error) fifo.Handler {
	return func(_ context.Context, job *fifo.Job) error {
		if string(job.Payload) == payload {
			return err
		}
		return nil
	}
}

// A failed job is tried again in its place: its group waits, others go on, and what happened is on record.
func TestRetryInPlace(t *testing.T) { overLeases(t, testRetryInPlace) }

func testRetryInPlace(t *testing.T, by lease) {
	b := by.on(newBed(t))
	ids := b.send("g", "head", "next")
	others := b.sendMany("q", 20, 1)
	w := b.worker(func(_ context.Context, job *fifo.Job) error {
		if string(job.Payload) == "head" && job.Attempt() == 1 {
			return fifo.RetryAfter(time.Hour, errOnPurpose)
		}
		return nil
	}, func(w *fifo.Worker) { w.Name = "the worker" })
	r := b.run(w)
	await(t, "all the others, and one attempt", func() bool { return len(b.ledger.outcomes()) == 21 })
	jobs := b.jobs()
	require.Len(t, jobs, 2)
	head := jobs[0]
	require.Equal(t, ids[0], head.ID)
	require.Equal(t, 1, head.Attempts)
	require.InDelta(t, time.Hour.Seconds(), time.Until(head.RunAt).Seconds(), 60)
	f := only(t, head.Failures)
	require.Equal(t, fifo.Failure{
		Attempt: 1, Kind: fifo.KindError, Error: "on purpose", Worker: "the worker", At: f.At,
	}, f)
	require.InDelta(t, 0, time.Since(f.At).Seconds(), 60)
	require.Zero(t, jobs[1].Attempts)
	require.Empty(t, jobs[1].Failures)
	require.NotContains(t, b.ledger.order(), ids[1])
	b.exec("UPDATE pgfifo.jobs SET run_at = NULL")
	r.finish()
	require.Equal(t, ids, b.ledger.order()[len(others)+1:])
	require.Equal(t, fifo.Stats{
		Succeeded: 22, Retried: 1, Claims: w.Stats().Claims, Missed: w.Stats().Missed,
	}, w.Stats())
}

// briefly is an error whose text can be asked for once: what it tells of ends with the handler.
type briefly struct{ asked bool }

func (e *briefly) Error() string {
	if e.asked {
		panic("it has ended")
	}
	e.asked = true
	return "it says so"
}

// A worker survives an error that panics behind the handler, and records that.
func TestErrorThatPanicsLater(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	w := b.worker(func(context.Context, *fifo.Job) error { return new(briefly) }, oneLane)
	w.MaxAttempts = 2
	b.work(w)
	for _, f := range only(t, b.deadLetters()).Failures {
		require.Contains(t, f.Error, "it has ended")
	}
	outcomes, _, _ := b.ledger.of("g")
	require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Buried}, outcomes)
}

func TestOutcomes(t *testing.T) {
	plain := errors.New("plain")
	odd := error((*oddError)(nil))
	cases := map[string]struct {
		handler fifo.Handler
		limit   int // of the message
		times   int
		kind    string
		text    string
		dead    bool
	}{
		"once":           {failing(1, plain), 0, 1, "error", "plain", false},
		"twice":          {failing(2, plain), 0, 2, "error", "plain", false},
		"used up":        {failing(99, plain), 0, 3, "error", "plain", true},
		"message's less": {failing(99, plain), 1, 1, "error", "plain", true},
		"message's more": {failing(4, plain), 5, 4, "error", "plain", false},
		"dead letter":    {failing(99, fifo.DeadLetter(plain)), 9, 1, "error", "plain", true},
		"dead, wrapped": {
			failing(99, fmt.Errorf("x: %w", fifo.DeadLetter(plain))), 9, 1, "error", "x: plain", true,
		},
		"dead, no error":      {failing(99, fifo.DeadLetter(nil)), 9, 1, "error", "given up", true},
		"later":               {failing(1, fifo.RetryAfter(0, nil)), 0, 1, "error", "retry later", false},
		"less than now":       {failing(1, fifo.RetryAfter(-time.Hour, plain)), 0, 1, "error", "plain", false},
		"nanosecond":          {failing(1, fifo.RetryAfter(1, plain)), 0, 1, "error", "plain", false},
		"nil pointer":         {failing(1, odd), 0, 1, "panic", "nil pointer", false},
		"panic":               {panicking(1, "a value"), 0, 1, "panic", "fifo: handler panicked: a value", false},
		"panic with an error": {panicking(1, plain), 1, 1, "panic", "fifo: handler panicked: plain", true},
		"panic with a nil pointer": {
			panicking(1, odd), 1, 1, "panic", "fifo: handler panicked: *fifo_test.oddError, whose methods panic", true,
		},
		"panic in a panic": {
			panicking(1, endless{}), 1, 1, "panic", "handler panicked: fifo_test.endless, whose methods panic", true,
		},
		"nil pointer, wrapped": {failing(1, fmt.Errorf("x: %w", odd)), 0, 1, "panic", "nil pointer", false},
		"exit in an error":     {failing(1, exits{}), 0, 1, "panic", "exited", false},
		"panic with nil":       {panicking(1, nil), 0, 1, "panic", "nil", false},
		"exit": {func(_ context.Context, job *fifo.Job) error {
			if job.Attempt() < 3 { // more often than the worker has lanes
				runtime.Goexit()
			}
			return nil
		}, 0, 2, "panic", "exited", false},
		"snooze in a dead letter": {failing(9, fifo.DeadLetter(fifo.Snooze(0, nil))), 2, 1, "error", "", true},
		"snooze around one":       {failing(9, fifo.Snooze(0, fifo.DeadLetter(nil))), 2, 1, "error", "", true},
		"snooze in a panic":       {panicking(9, fifo.Snooze(time.Hour, nil)), 2, 2, "panic", "", true},
		"unavailable in a dead letter": {
			failing(9, fifo.DeadLetter(fifo.Unavailable(nil))), 2, 1, "error", "", true,
		},
		"unavailable around one": {failing(9, fifo.Unavailable(fifo.DeadLetter(nil))), 2, 1, "error", "", true},
		"unavailable in a panic": {panicking(9, fifo.Unavailable(nil)), 2, 2, "panic", "", true},
		"runtime error": {func(_ context.Context, job *fifo.Job) error {
			return fmt.Errorf("no such payload byte: %d", job.Payload[len(job.Payload)])
		}, 1, 1, "panic", "index out of range", true},
	}
	b := newBed(t)
	b.exec(`CREATE TABLE history (n serial, id bigint, failures jsonb);
		CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO history (id, failures) VALUES (new.id, new.failures); RETURN NULL; END $$;
		CREATE TRIGGER keep AFTER UPDATE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION keep();
		CREATE TRIGGER keep AFTER INSERT ON pgfifo.dead_letters FOR EACH ROW EXECUTE FUNCTION keep()`)
	ids := make(map[string][]int64) // of each case's group
	for name, x := range cases {
		ids[name] = b.sendAll(fifo.Message{Queue: "q", GroupID: name, Payload: "x", MaxAttempts: x.limit},
			fifo.Message{Queue: "q", GroupID: name, Payload: "next"})
	}
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "next" {
			return nil
		}
		return cases[job.GroupID].handler(ctx, job)
	}, oneLane))
	letters := make(map[string]fifo.Job)
	for _, letter := range b.deadLetters() {
		letters[letter.GroupID] = letter
	}
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			id, next := ids[name][0], ids[name][1]
			outcomes, errs, order := b.ledger.of(name)
			var want []fifo.Outcome
			var starts []int64
			for range x.times {
				want, starts = append(want, fifo.Retried), append(starts, id)
			}
			if x.dead {
				want[len(want)-1] = fifo.Buried
			} else {
				want, starts = append(want, fifo.Succeeded), append(starts, id)
			}
			require.Equal(t, append(want, fifo.Succeeded), outcomes)
			require.Equal(t, append(starts, next), order)

			failures := query[[]fifo.Failure](b, "SELECT failures FROM history WHERE id = $1 ORDER BY n DESC LIMIT 1",
				id)
			require.Len(t, failures, x.times)
			for i, f := range failures {
				require.Equal(t, i+1, f.Attempt)
				require.Equal(t, x.kind, f.Kind)
				require.Contains(t, f.Error, x.text)
				require.Contains(t, f.Worker, "pgfifo ")
				require.Equal(t, f.Kind == fifo.KindPanic, f.Stack != "")
				require.ErrorContains(t, errs[i], x.text)
				if f.Kind == fifo.KindPanic {
					require.Contains(t, f.Stack, "fifo_test.", "where it panicked")
					require.ErrorAs(t, errs[i], new(*fifo.PanicError))
				}
			}
			letter, dead := letters[name]
			require.Equal(t, x.dead, dead)
			if !dead {
				return
			}
			require.Equal(t, id, letter.ID)
			require.Equal(t, "x", string(letter.Payload))
			require.Equal(t, x.times, letter.Attempts)
			require.Equal(t, failures, letter.Failures)
		})
	}
}

// An oddError panics if it is a nil pointer in an error, which is not nil.
type oddError struct{ text string }

func (e *oddError) Error() string { return e.text }
func (e *oddError) Unwrap() error { return errors.New(e.text) }

// An endless panics whoever asks for its text.
type endless struct{}

func (e endless) String() string { panic(e) }

// An exits ends the goroutine that asks for its text.
type exits struct{}

func (exits) Error() string {
	runtime.Goexit()
	return ""
}

// A payload that does not decode will not get better. Where payloads are to fit exactly, one with a field of nobody's
// is not worked as if it had none. The error does not quote it.
func TestJSONHandlers(t *testing.T) {
	type row struct {
		handler func(func(context.Context, *fifo.Job, parcel) error) fifo.Handler
		bad     map[string]string // what the errors say, by payload
	}
	const decode = "decode payload of job "
	pgtest.OverAll(t, map[string]row{
		"JSON": {fifo.JSON[parcel], map[string]string{`{"name":`: decode, "": decode, `{"name":7}`: decode}},
		"StrictJSON": {fifo.StrictJSON[parcel], map[string]string{
			`{"name":"Bob","secret":1}`: "it has a field", "": "not JSON", `{"name":"Eve"} {}`: "not JSON",
			`{"name":7}`: "JSON number for name",
		}},
	}, func(t *testing.T, x row) {
		b := newBed(t)
		b.send("g", `{"name":"Ada"}`)
		for payload := range x.bad {
			b.send("g", payload)
		}
		b.send("g", parcel{"Grace"})
		var names []string
		b.work(b.worker(x.handler(func(_ context.Context, _ *fifo.Job, p parcel) error {
			names = append(names, p.Name) // one group: one at a time
			return nil
		})))
		require.Equal(t, []string{"Ada", "Grace"}, names)
		letters := b.deadLetters()
		require.Len(t, letters, len(x.bad))
		for _, l := range letters {
			require.Equal(t, 1, l.Attempts)
			require.Contains(t, l.Failures[0].Error, x.bad[string(l.Payload)])
			require.NotContains(t, l.Failures[0].Error, "secret")
			require.Contains(t, l.Failures[0].Error, fmt.Sprint(decode, l.ID))
		}
		require.Panics(t, func() { new(fifo.Worker).Handle("q", x.handler(nil)) })
	})
}

// What a handler's error says can be asserted in the test of a handler.
func TestWhatErrorsSay(t *testing.T) {
	t.Parallel()
	type says struct {
		dead, unavailable, later, snooze bool
		until                            time.Duration
	}
	for want, err := range map[says]error{
		{dead: true}:                       fifo.DeadLetter(errOnPurpose),
		{unavailable: true}:                fifo.Unavailable(errOnPurpose),
		{later: true, until: time.Minute}:  fifo.RetryAfter(time.Minute, errOnPurpose),
		{snooze: true, until: time.Minute}: fifo.Snooze(time.Minute, errOnPurpose),
		{}:                                 &fifo.PanicError{Value: errOnPurpose},
	} {
		err = fmt.Errorf("x: %w", err)
		require.ErrorIs(t, err, errOnPurpose)
		later, isLater := fifo.AsRetryAfter(err)
		snooze, isSnooze := fifo.AsSnooze(err)
		require.Equal(t, want, says{fifo.IsDeadLetter(err), fifo.IsUnavailable(err), isLater, isSnooze, later + snooze})
	}
	require.False(t, fifo.IsDeadLetter(nil))
	require.NoError(t, errors.Unwrap(&fifo.PanicError{Value: "text"}))
	require.EqualError(t, fifo.Unavailable(nil), "unavailable")
}

// Whatever an error says, the attempt is recorded, and soon after that the text is cut.
func TestErrorTexts(t *testing.T) {
	texts := map[string]string{
		"":                         "",
		"a\x00b":                   "a\ufffdb",
		"\xff\xfe":                 "\ufffd",
		"\xed\xa0\x80 \xc0":        "\ufffd \ufffd",
		`{"json": "\u0000"}`:       `{"json": "\u0000"}`,
		"\ufffe\uffff\u200b\x01":   "\ufffe\uffff\u200b\x01",
		strings.Repeat("x", 1<<20): strings.Repeat("x", 4<<10-len("…")) + "…",
		strings.Repeat("€", 1<<18): strings.Repeat("€", (4<<10)/3-1) + "…",
	}
	b := newBed(t)
	for text := range texts {
		b.send("g", text)
	}
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		return fifo.DeadLetter(errors.New(string(job.Payload)))
	}))
	letters := b.deadLetters()
	require.Len(t, letters, len(texts))
	for _, letter := range letters {
		require.Equal(t, texts[string(letter.Payload)], letter.Failures[0].Error)
	}
}

// The history keeps the latest failures.
func TestHistoryIsCapped(t *testing.T) {
	b := newBed(t)
	b.send("g", "x")
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		return fmt.Errorf("number %d", job.Attempt())
	}, func(w *fifo.Worker) { w.MaxAttempts = 60 }))
	letter := b.deadLetters()[0]
	require.Equal(t, 60, letter.Attempts)
	require.Len(t, letter.Failures, 50)
	for i, f := range letter.Failures {
		require.Equal(t, i+11, f.Attempt)
		require.Equal(t, fmt.Sprint("number ", i+11), f.Error)
	}
}
