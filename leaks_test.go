package pgfifo_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Whatever becomes of a job, its payload is in no log line, no error and no stored failure, unless its handler says it.
func TestPayloadsAreNotLogged(t *testing.T) {
	t.Parallel()
	v := newSieve(t)
	s := &staff{DB: pgtest.At(t, pgtest.URL(t)), logs: &v.logs}
	pool := s.Pool
	client := fifo.Open(pool, &fifo.Config{Logger: v.logger(), Hooks: []fifo.Hooks{{
		Settled: func(_ context.Context, job *fifo.Job, o fifo.Outcome, err error) {
			if err != nil {
				v.keep("settled as "+o.String(), err)
			}
		},
	}}})
	defer func() { require.NoError(t, client.Close()) }()
	ctx := t.Context()
	send := func(queue, group, payload string) {
		_, err := client.Enqueue(ctx, fifo.Message{Queue: queue, GroupID: group, Payload: payload})
		require.NoError(t, err)
	}
	kinds := []string{"error", "panic", "timeout", "lost", "sql", "cast", "raise", "commit", "retry"}
	for _, kind := range kinds {
		send("kinds", kind, fmt.Sprintf(`{"do": %q, "secret": %q}`, kind, canary))
	}
	undecodable := map[string]string{
		"text": canary + " is no JSON", "quoted": `"` + canary + `"`, "number": canary,
		"field": `{"Int": ` + canary + `}`, "string": `{"Int": "` + canary + `"}`,
		"tagged": `{"Tagged": "x` + canary + `"}`, "key": `{"Keys": {"` + canary + `": 1}}`,
		"time": `{"Time": "` + canary + `"}`, "big": `{"Big": "x` + canary + `"}`, "addr": `{"Addr": "` + canary + `"}`,
		"float": `{"Float": 1` + canary + `e999}`, "bytes": `{"Bytes": "!` + canary + `"}`,
		"json number": `{"Number": "x` + canary + `"}`, "own": `{"Own": "` + canary + `"}`,
		"cut": `{"Int": ` + canary[:20], "array": `[` + canary + `]`,
	}
	for kind, payload := range undecodable {
		send("undecodable", kind, payload)
	}
	for i := range 12 {
		send("slice", fmt.Sprint(i%2), fmt.Sprint(canary, i))
		send("each", fmt.Sprint(i), canary)
	}
	w := &fifo.Worker{
		Client: client, Concurrency: 4, MaxAttempts: 2, JobTimeout: 2 * time.Second,
		PollInterval: 100 * time.Millisecond,
		Retry: func(job *fifo.Job, _ error) time.Duration {
			if strings.Contains(string(job.Payload), `"retry"`) {
				panic("of the policy")
			}
			return 0
		},
		Heartbeat:     50 * time.Millisecond,
		SweepInterval: 50 * time.Millisecond, GroupIdle: time.Microsecond,
	}
	s.exec("CREATE TABLE once (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	w.Handle("kinds", func(ctx context.Context, job *fifo.Job) error {
		return misfortune(ctx, pool, job)
	})
	w.Handle("undecodable", fifo.JSON(func(context.Context, *fifo.Job, undecodableInto) error { return nil }))
	w.HandleQueue("slice", fifo.Queue{
		BatchJobs: 4,
		BatchHandler: func(_ context.Context, jobs []*fifo.Job) error {
			if len(jobs) > 1 {
				panic("of a batch")
			}
			return fifo.BatchError{jobs[0].ID: errors.New("as told")}
		},
	})
	w.HandleQueue("each", fifo.Queue{
		BatchGroups: 4,
		Handler: func(context.Context, *fifo.Job) error {
			return errors.New("as told")
		},
	})
	s.work(w, "all jobs to be buried", func() bool { return s.number("SELECT count(*) FROM pgfifo.jobs") == 0 })
	require.Equal(t, len(kinds)+len(undecodable)+24, s.number("SELECT count(*) FROM pgfifo.dead_letters"))

	dead, err := client.DeadLetters(ctx, fifo.Letters{Limit: 1000})
	require.NoError(t, err)
	for _, d := range dead {
		for _, f := range d.Failures {
			v.failed("stored", fmt.Errorf("%+v", f))
		}
	}
	require.Contains(t, v.logs.String(), "dead letter", "the log is on")

	// Producers' mistakes.
	for name, m := range map[string]fifo.Message{
		"no queue": {GroupID: "g", Payload: canary}, "no group": {Queue: "q", Payload: canary},
		"too large": {Queue: "q", GroupID: "g", Payload: strings.Repeat(canary, fifo.MaxPayloadBytes/len(canary)+1)},
		"delay":     {Queue: "q", GroupID: "g", Payload: canary, Delay: -1},
		"channel":   {Queue: "q", GroupID: "g", Payload: struct{ S, C any }{canary, make(chan int)}},
		"number":    {Queue: "q", GroupID: "g", Payload: json.Number("x" + canary)},
		"raw":       {Queue: "q", GroupID: "g", Payload: struct{ R json.RawMessage }{json.RawMessage(canary + "x")}},
	} {
		_, err := client.Enqueue(ctx, m)
		v.failed(name, err)
	}
	s.exec("ALTER TABLE pgfifo.jobs ADD CONSTRAINT never CHECK (id = 0) NOT VALID")
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		cfg := pool.Config()
		cfg.ConnConfig.DefaultQueryExecMode = mode
		other, err := pgxpool.NewWithConfig(ctx, cfg)
		require.NoError(t, err)
		producer := fifo.Open(other, &fifo.Config{Logger: v.logger()})
		m := fifo.Message{Queue: "q", GroupID: "g", Payload: canary}
		_, err = producer.Enqueue(ctx, m)
		v.failed(fmt.Sprint("constraint, one, ", mode), err)
		_, err = producer.Enqueue(ctx, m, m)
		v.failed(fmt.Sprint("constraint, two, ", mode), err)
		tx, err := producer.DB().BeginTx(ctx, nil)
		require.NoError(t, err)
		_, err = producer.EnqueueTx(ctx, tx, m)
		v.failed(fmt.Sprint("constraint, bun, ", mode), err)
		require.NoError(t, tx.Rollback())
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, err = producer.Enqueue(gone, m)
		v.failed("cancelled", err)
		require.NoError(t, producer.Close())
		other.Close()
		_, err = producer.Enqueue(ctx, m)
		v.failed("closed", err)
	}
}

// undecodableInto has a field for each way in which a decoder quotes what it does not like.
type undecodableInto struct {
	Int    int32
	Tagged int `json:",string"`
	Keys   map[int8]int
	Time   time.Time
	Big    *big.Int
	Addr   netip.Addr
	Float  float64
	Bytes  []byte
	Number json.Number
	Own    verbose
}

// A verbose is a type of the application's whose decoder quotes its input.
type verbose struct{}

func (*verbose) UnmarshalJSON(b []byte) error { return fmt.Errorf("I do not like %s", b) }

// misfortune is the handler of queue kinds.
func misfortune(ctx context.Context, pool *pgxpool.Pool, job *fifo.Job) error {
	var what struct{ Do string }
	if err := job.Decode(&what); err != nil {
		return err
	}
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	switch what.Do {
	case "panic":
		panic("as told")
	case "timeout":
		<-ctx.Done()
		return ctx.Err()
	case "lost":
		pid, err := backend(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, "SELECT pg_terminate_backend($1)", pid); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case "sql": // swallowed
		_, _ = tx.Exec(ctx, "INSERT INTO nowhere VALUES ($1)", job.Payload)
		return nil
	case "cast":
		_, _ = tx.Exec(ctx, "SELECT $1::text::integer", string(job.Payload))
		return nil
	case "raise":
		_, _ = tx.Exec(ctx, "DO $$ BEGIN RAISE foreign_key_violation USING MESSAGE = 'not "+canary+"'; END $$")
		return nil
	case "commit":
		_, err := tx.Exec(ctx, "INSERT INTO once VALUES (1), (1)")
		return err
	}
	return errors.New("as told")
}

// Canaries are in every payload and password of these tests, and nowhere else. Digits, so that a payload can be a
// number.
const (
	canary         = "5105105105105100314159265358979"
	passwordCanary = "hunter2canary"
)

// A sieve keeps what the library logs and what it returns as errors.
type sieve struct {
	*testing.T
	logs logbook
	mu   sync.Mutex
	errs []string
}

func newSieve(t *testing.T) *sieve {
	v := &sieve{T: t}
	t.Cleanup(v.audit)
	return v
}

func (v *sieve) logger() *slog.Logger {
	json := slog.NewJSONHandler(&v.logs, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(tee{v.logs.handler(slog.LevelDebug), json})
}

// failed keeps an error, which there must be.
func (v *sieve) failed(what string, err error) {
	v.Helper()
	require.Error(v, err, what)
	v.keep(what, err)
}

func (v *sieve) keep(what string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errs = append(v.errs, fmt.Sprintf("%s: %v | %+v | %q", what, err, err, err))
}

// audit looks for canaries, as they are and as PostgreSQL and Go write bytes.
func (v *sieve) audit() {
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := append(strings.Split(v.logs.String(), "\n"), v.errs...)
	for _, line := range lines {
		if form := found(line); form != "" {
			v.Errorf("%q is in: %.300s", form, line)
		}
	}
}

// found returns the first form of a canary that a line has.
func found(line string) string {
	for _, c := range []string{canary, passwordCanary} {
		for _, form := range []string{
			c[:10], hex.EncodeToString([]byte(c[:10])), base64.StdEncoding.EncodeToString([]byte(c[:9])),
			strings.Trim(fmt.Sprintf("%d", []byte(c[:10])), "[]"),
			strings.Trim(fmt.Sprintf("%#v", []byte(c[:5])), "[]byte{}"),
		} {
			if strings.Contains(line, form) {
				return form
			}
		}
	}
	return ""
}

// A tee hands everything to two handlers.
type tee struct{ a, b slog.Handler }

func (h tee) Enabled(context.Context, slog.Level) bool { return true }

func (h tee) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(h.a.Handle(ctx, r), h.b.Handle(ctx, r))
}

func (h tee) WithAttrs(a []slog.Attr) slog.Handler { return tee{h.a.WithAttrs(a), h.b.WithAttrs(a)} }

func (h tee) WithGroup(g string) slog.Handler { return tee{h.a.WithGroup(g), h.b.WithGroup(g)} }
