package fifo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
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

func (l *logFile) set(cfg *fifo.Config) { cfg.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// Whoever has not set anything hears of failures, and of no payload.
func TestFailuresAreHeard(t *testing.T) {
	log := &logFile{}
	b := newBed(t, log.set)
	id := b.send("g", "a secret")[0]
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		switch job.Attempt() {
		case 1:
			return errors.New("first failure")
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
		lines := log.lines(what)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], want)
	}
	require.Contains(t, log.lines("second failure")[0], "teller_test.go")
	require.Empty(t, log.lines("secret"))
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
	log := &logFile{}
	b := newBed(t, log.set)
	const n, dead = 100, 5
	w := b.worker(b.burst(n, dead))
	r := b.run(w)
	await(t, "all to fail", func() bool { return w.Stats().Retried == n && w.Stats().Buried == dead })
	await(t, "all to be counted", func() bool {
		told, withheld := log.told(t, "WARN", "attempt failed")
		return told == n && withheld > 0
	})
	require.Len(t, log.lines("dead letter"), dead)
	require.NoError(t, r.stop())
	_, err := b.client.Queue("q").Purge(t.Context())
	require.NoError(t, err)
}

// What is withheld is told of before Run returns.
func TestFailuresAreToldAtTheEnd(t *testing.T) {
	log := &logFile{}
	b := newBed(t, log.set)
	const n = 100
	b.work(b.worker(b.burst(0, n)))
	told, _ := log.told(t, "ERROR", "dead letter")
	require.Equal(t, n, told)
}

// So it is before RunOne returns, which may find many attempts that were lost.
func TestLostAttemptsAreToldByRunOne(t *testing.T) {
	log := &logFile{}
	b := newBed(t, log.set)
	const n = 100
	h := b.burst(n, 0)
	b.exec(`INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt)
		SELECT queue, group_id, id, 1 FROM pgfifo.jobs`)
	w := b.worker(h, func(w *fifo.Worker) { w.Retry = waiting(time.Hour) })
	require.False(t, b.runsOne(w))
	require.EqualValues(t, n, w.Stats().Lost)
	told, _ := log.told(t, "WARN", "attempt failed")
	require.Equal(t, n, told)
	_, err := b.client.Queue("q").Purge(t.Context())
	require.NoError(t, err)
}
