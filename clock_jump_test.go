//go:build linux && amd64

package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
	"github.com/pgfifo/pgfifo/internal/pgtest/wallclock"
)

// A worker's wall clock may jump as it likes, forward, back, by years, while everything is under way: handlers,
// heartbeats, timeouts, delays, backoffs, late commits, pauses, lost connections. Only the server's clock says when a
// job is due, and what a worker measures itself it measures with the monotonic one. Beside it works a process whose
// clock is right.
func TestClockJump(t *testing.T) {
	t.Parallel()
	if os.Getenv(jumping) == "" {
		inJumpingProcess(t)
		return
	}
	wall, mono := time.Now().Round(0), time.Now()
	wallclock.Jump(2 * time.Hour)
	require.Greater(t, time.Now().Round(0).Sub(wall), time.Hour, "the wall clock does not jump")
	require.Less(t, time.Since(mono), time.Hour, "the monotonic clock does")
	wallclock.Jump(0)

	c := newClocks(t)
	want := make(map[string][]int64)
	for i, jump := range []time.Duration{time.Hour, -time.Hour, 10 * 365 * 24 * time.Hour, 0} {
		c.jump(fmt.Sprint(i), jump)
		for group, ids := range c.sent {
			want[group] = append(want[group], ids...)
		}
		c.sent = nil
	}
	c.stop()
	require.Empty(t, c.early, "jobs that started before they were due")
	require.Equal(t, want, c.effects())
	require.Zero(t, c.worker.Stats().Unknown)
}

const (
	clockTimeout = 5 * time.Second         // the jumping worker's JobTimeout
	clockDelay   = 1500 * time.Millisecond // of messages, and of second attempts
)

// Clocks are a worker in this process, whose clock jumps, and an ordinary one in another.
type clocks struct {
	*site
	worker *fifo.Worker
	stop   func()
	sent   map[string][]int64 // what is to have an effect

	mu    sync.Mutex
	began map[int64]int           // attempts, by job
	early []int64                 // jobs that began before they were due, by the server's clock
	ended map[int64]error         // the causes with which contexts ended
	took  map[int64]time.Duration // until then, by the server's clock
}

func newClocks(t *testing.T) *clocks {
	c := &clocks{
		site:  siteOn(pgtest.New(t)),
		began: make(map[int64]int), ended: make(map[int64]error), took: make(map[int64]time.Duration),
	}
	c.start(2)
	book, err := openJournal(c.journal, "jumping")
	require.NoError(t, err)
	h := &taskHandler{pool: c.Pool, client: c.client, book: book}
	c.worker = &fifo.Worker{
		Client: c.client, Name: "jumping", Concurrency: 4, JobTimeout: clockTimeout,
		// So short that a heartbeat that is not sent costs the group.
		Heartbeat: 300 * time.Millisecond, Silence: 1500 * time.Millisecond, ServerSilence: 4 * time.Second,
		PollInterval: 200 * time.Millisecond, Retry: fifo.Backoff(clockDelay, clockDelay),
	}
	c.worker.Handle(queue, fifo.JSON(h.handle))
	c.worker.Handle("clock", func(ctx context.Context, job *fifo.Job) error {
		begin, err := c.note(ctx, job)
		if err != nil {
			return err
		}
		switch string(job.Payload) {
		case "wait":
			<-ctx.Done()
			end, err := c.now(context.WithoutCancel(ctx))
			c.mu.Lock()
			c.ended[job.ID], c.took[job.ID] = context.Cause(ctx), end.Sub(begin)
			c.mu.Unlock()
			return errors.Join(ctx.Err(), err)
		case "fail":
			if job.Attempt() == 1 {
				return errors.New("as told")
			}
		}
		return h.handle(ctx, job, task{})
	})
	c.stop = background(c.T, c.worker.Run)
	return c
}

// now is the server's time.
func (c *clocks) now(ctx context.Context) (now time.Time, err error) {
	err = c.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now, err
}

// note takes down that a job has begun, and whether that was too early.
func (c *clocks) note(ctx context.Context, job *fifo.Job) (now time.Time, err error) {
	var due bool
	err = c.Pool.QueryRow(ctx,
		"SELECT clock_timestamp(), run_at IS NULL OR run_at <= clock_timestamp() FROM pgfifo.jobs WHERE id = $1",
		job.ID).Scan(&now, &due)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began[job.ID]++
	if !due {
		c.early = append(c.early, job.ID)
	}
	return now, err
}

// has waits until a job has begun so many attempts.
func (c *clocks) has(what string, id int64, attempts int) {
	c.Helper()
	c.until(what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.began[id] >= attempts
	})
}

// jump has the clock jump while there is one of everything, and waits until all of it has come to its end.
func (c *clocks) jump(round string, by time.Duration) {
	c.Helper()
	c.sent = c.fill(3, 20)
	send := func(payload string, msg fifo.Message) int64 {
		msg.Queue, msg.GroupID, msg.Payload = "clock", payload, payload
		id := c.enqueue(msg)[0]
		if payload != "wait" {
			c.sent[payload] = append(c.sent[payload], id)
		}
		return id
	}
	waits := send("wait", fifo.Message{MaxAttempts: 1})
	tx, err := c.Pool.Begin(c.Context())
	require.NoError(c, err)
	defer func() { _ = tx.Rollback(c.Context()) }()
	m := fifo.Message{Queue: "clock", GroupID: "late", Payload: "late"}
	late, err := receipt.IDs(c.client.EnqueuePgxTx(c.Context(), tx, m))
	require.NoError(c, err)
	passed := send("late", fifo.Message{})
	c.sent["late"] = append(c.sent["late"], late...)
	fails := send("fail", fifo.Message{})
	delayed := send("delayed", fifo.Message{Delay: clockDelay})
	group := c.client.Queue("clock").Group("paused")
	require.NoError(c, pausing(group.Pause(c.Context(), "a test")))
	paused := send("paused", fifo.Message{})
	c.has("the job that waits", waits, 1)
	c.has("the job that passes a late one", passed, 1)
	c.has("the job that fails", fails, 1)

	wallclock.Jump(by)
	require.NoError(c, tx.Commit(c.Context()))
	c.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'jumping' AND query LIKE 'LISTEN %'`)
	c.has("the late job", late[0], 1)
	c.has("the delayed job", delayed, 1)
	c.has("the second attempt", fails, 2)
	c.mu.Lock()
	require.Zero(c, c.began[paused])
	c.mu.Unlock()
	resumed, err := group.Resume(c.Context())
	require.NoError(c, err)
	require.True(c, resumed)
	c.has("the job that was paused", paused, 1)
	c.drained()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.ErrorIs(c, c.ended[waits], fifo.ErrJobTimeout, "round %s: heartbeats keep the session", round)
	require.Greater(c, c.took[waits], clockTimeout/2, "by the handler's own watch, which starts late on a busy machine")
}

// jumping is set in the environment of a process whose wall clock jumps.
const jumping = "PGFIFO_TEST_JUMPING"

// inJumpingProcess runs the calling test once more in a process of its own, on the same server: everything in that has
// the same wall clock.
func inJumpingProcess(t *testing.T) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), jumping+"=1", pgserver.EnvSource+"=url", pgserver.EnvURL+"="+pgtest.URL(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}
