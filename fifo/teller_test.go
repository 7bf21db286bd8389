package fifo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A logFile is what a logger writes by default, from INFO on.
type logFile struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logFile) lines(with string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

// Whoever has not set anything hears of failures, and of no payload.
func TestFailuresAreHeard(t *testing.T) {
	b := newBed(t)
	id := b.send("g", "a secret")[0]
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		switch job.Attempt() {
		case 1:
			return errors.New("first failure" + strings.Repeat("!", 1<<20))
		case 2:
			panic("second failure")
		}
		return fifo.DeadLetter(errors.New("third failure"))
	}, oneLane, func(w *fifo.Worker) { w.Retry = waiting(0) }))
	job := fmt.Sprintf("queue=q group=g job=%d ", id)
	for what, want := range map[string]string{
		"first failure":  "level=WARN msg=\"pgfifo: attempt failed\" " + job + "attempt=1 ",
		"second failure": "level=ERROR msg=\"pgfifo: attempt failed\" " + job + "attempt=2 ",
		"third failure":  "level=ERROR msg=\"pgfifo: dead letter\" " + job + "attempt=3 ",
	} {
		lines := b.log.lines(what)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], want)
	}
	require.Less(t, len(b.log.lines("first failure")[0]), 5<<10, "no more than the row has")
	require.Contains(t, b.log.lines("second failure")[0], "teller_test.go")
	require.Empty(t, b.log.lines("secret"))
}

// told returns how many failures the log has told of, and how many of those it only counts.
func (l *logFile) told(t *testing.T, level, what string) (told, withheld int) {
	t.Helper()
	told = len(l.lines("level=" + level + " msg=\"pgfifo: " + what))
	count := regexp.MustCompile(`count=(\d+)`)
	for _, line := range l.lines("level=" + level + " msg=\"pgfifo: failures withheld") {
		n, err := strconv.Atoi(count.FindStringSubmatch(line)[1])
		require.NoError(t, err)
		withheld += n
	}
	return told + withheld, withheld
}

// burst puts n jobs that fail, and behind them some that die, into groups of their own.
func (b *bed) burst(n, dead int) fifo.Handler {
	b.t.Helper()
	for i := range n {
		b.send(fmt.Sprint("a", i), nil)
	}
	for i := range dead {
		b.send(fmt.Sprint("z", i), nil)
	}
	return func(_ context.Context, job *fifo.Job) error {
		if strings.HasPrefix(job.GroupID, "z") {
			return fifo.DeadLetter(errOnPurpose)
		}
		return fifo.RetryAfter(time.Hour, errOnPurpose)
	}
}

// Where everything fails, the log does not grow with it, and says how much it does not say, also when nothing fails
// afterwards. Dead letters are told of beside any number of retries.
func TestFailuresAreToldSoManyASecond(t *testing.T) {
	b := newBed(t)
	const n, dead = 100, 5
	w := b.worker(b.burst(n, dead))
	r := b.run(w)
	await(t, "all to fail", func() bool { return w.Stats().Retried == n && w.Stats().Buried == dead })
	await(t, "all to be counted", func() bool {
		told, withheld := b.log.told(t, "WARN", "attempt failed")
		return told == n && withheld > 0
	})
	await(t, "the dead letters", func() bool { return len(b.log.lines("dead letter")) == dead })
	require.Empty(t, w.Stats().Probed, "ordinary errors do not open the breaker")
	require.NoError(t, r.stop())
	require.NoError(t, second(b.q.Purge(t.Context())))
}

// The queues of both leases are one Run's.
func TestFailuresOfBothLeasesAreToldTogether(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.Queue("kept").Configure(t.Context(), fifo.Settings{SessionLease: true}))
	const n = tuning.Many
	fails := func(context.Context, *fifo.Job) error { return fifo.DeadLetter(errOnPurpose) }
	w := b.worker(fails)
	w.Handle("kept", fails)
	r := b.run(w)
	b.listening()
	begin := time.Now()
	b.sendMany("q", n, 1)
	b.sendMany("kept", n, 1)
	await(t, "all to fail", func() bool { return w.Stats().Buried == 2*n })
	seconds := 1 + int(time.Since(begin)/time.Second)
	require.NoError(t, r.stop())
	told, withheld := b.log.told(t, "ERROR", "dead letter")
	require.Equal(t, 2*n, told)
	require.LessOrEqual(t, told-withheld, n*seconds)
}

// What is withheld is told of before Run returns.
func TestFailuresAreToldAtTheEnd(t *testing.T) {
	b := newBed(t)
	const n = 100
	b.work(b.worker(b.burst(0, n)))
	told, _ := b.log.told(t, "ERROR", "dead letter")
	require.Equal(t, n, told)
}

// So it is before RunOne returns, which may find many attempts that were lost.
func TestLostAttemptsAreToldByRunOne(t *testing.T) {
	b := newBed(t)
	const n = 100
	h := b.burst(n, 0)
	b.exec(`INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt)
		SELECT queue, group_id, id, 1 FROM pgfifo.jobs`)
	w := b.worker(h, func(w *fifo.Worker) { w.Retry = waiting(time.Hour) })
	require.False(t, b.runsOne(w))
	require.EqualValues(t, n, w.Stats().Lost)
	told, _ := b.log.told(t, "WARN", "attempt failed")
	require.Equal(t, n, told)
	require.NoError(t, second(b.q.Purge(t.Context())))
}

// Foreign keys that refer to jobs or groups are told of, each once.
func TestReferencesAreTold(t *testing.T) {
	b := newBed(t)
	b.exec(`CREATE TABLE notes (queue text COLLATE "C", group_id text COLLATE "C", job bigint,
		CONSTRAINT of_a_job FOREIGN KEY (queue, group_id, job) REFERENCES pgfifo.jobs ON DELETE CASCADE)`)
	b.run(b.worker(nop, func(w *fifo.Worker) { w.SweepInterval = 10 * time.Millisecond }))
	await(t, "the warning", func() bool { return len(b.log.lines("table=notes constraint=of_a_job")) == 1 })
	b.exec(`CREATE TABLE later (queue text COLLATE "C", group_id text COLLATE "C",
		CONSTRAINT of_a_group FOREIGN KEY (queue, group_id) REFERENCES pgfifo.queue_groups)`)
	await(t, "the second", func() bool { return len(b.log.lines("table=later constraint=of_a_group")) == 1 })
	require.Len(t, b.log.lines("a foreign key refers to the library's tables"), 2, "each is told once")
}

// Jobs in a queue that the worker does not handle are told of once, when they have waited for long. What is held,
// paused or not due yet is not, nor what the worker handles or what has just come.
func TestUnhandledQueueIsTold(t *testing.T) {
	b := newBed(t)
	const interval = 20 * time.Millisecond
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, enqueued_at, run_at)
		SELECT queue, group_id, 'secret', now() - interval '1 hour', due FROM (VALUES
			('typo', 'a', NULL), ('typo', 'b', NULL), ('seen', 'a', now() - interval '1 hour'), ('held', 'a', NULL),
			('kept', 'a', NULL), ('paused', 'a', NULL), ('grouppaused', 'a', NULL), ('q', 'paused', NULL),
			('delayed', 'a', now() + interval '1 hour'), ('parked', 'a', 'infinity')) v (queue, group_id, due)`)
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('seen', 'a')")
	b.exec(`INSERT INTO pgfifo.pauses (queue, group_id) VALUES
		('paused', ''), ('grouppaused', 'a'), ('q', 'paused'), ('typo', 'b')`)
	holder := b.beginWith("SELECT FROM pgfifo.jobs WHERE queue = 'held' FOR NO KEY UPDATE")
	keeper := pgtest.Conn(t, b.url)
	require.NoError(t, second(keeper.Exec(t.Context(), "SELECT pg_advisory_lock(77)")))
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id, session, job) VALUES ('kept', 'a', 77, 1)")

	sweeping := func(w *fifo.Worker) { w.SweepInterval = interval }
	r := b.run(b.worker(nop, sweeping))
	const what = "a queue that this worker does not handle; another worker may"
	await(t, "what is old", func() bool { return len(b.log.lines(what)) == 2 })
	require.Len(t, b.log.lines("queue=typo group=a waits=1h0m"), 1)
	require.Len(t, b.log.lines("seen=false"), 1)
	require.Len(t, b.log.lines("queue=seen group=a waits=1h0m"), 1)
	require.Len(t, b.log.lines("seen=true"), 1)
	for _, line := range b.log.lines(what) {
		require.Contains(t, line, "level=WARN")
	}

	came := time.Now()
	b.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('late', 'a', 'secret')")
	await(t, "what has become old", func() bool { return len(b.log.lines("queue=late")) == 1 })
	require.GreaterOrEqual(t, time.Since(came), 10*interval)
	require.NoError(t, holder.Rollback(t.Context()))
	await(t, "what was held", func() bool { return len(b.log.lines("queue=held")) == 1 })
	require.Empty(t, b.log.lines("queue=kept"))
	b.gone(keeper)
	await(t, "what a session had", func() bool { return len(b.log.lines("queue=kept")) == 1 })
	require.Len(t, b.log.lines(what), 5, "each once")
	require.NoError(t, r.stop())

	b.run(b.worker(nop, sweeping))
	await(t, "what is told by the next run", func() bool { return len(b.log.lines(what)) == 10 })
	require.Empty(t, b.log.lines("secret"))
	require.Empty(t, b.log.lines("sweep failed"))
}
