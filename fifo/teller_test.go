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
	"github.com/pgfifo/pgfifo/groups"
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
	t.Parallel()
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

// Where everything fails, the log does not grow with it, and says how much it does not say.
func TestFailuresAreToldSoManyASecond(t *testing.T) {
	t.Parallel()
	log := &logFile{}
	b := newBed(t, log.set)
	const n = 300
	for i := range n {
		b.send(fmt.Sprint("g", i), nil)
	}
	w := b.worker(func(context.Context, *fifo.Job) error {
		return fifo.RetryAfter(time.Hour, errOnPurpose)
	})
	r := b.run(w)
	await(t, "all to fail", func() bool { return int(w.Stats().Retried) == n })
	require.Less(t, len(log.lines("attempt failed")), n/2)
	more := 0
	await(t, "a line about those before", func() bool {
		b.send(fmt.Sprint("more", more), nil)
		more++
		await(t, "it to fail", func() bool { return int(w.Stats().Retried) == n+more })
		lines := log.lines("attempt failed")
		return strings.Contains(lines[len(lines)-1], "withheld=")
	})
	require.NoError(t, r.stop())
	told, withheld := 0, regexp.MustCompile(`withheld=(\d+)`)
	for _, line := range log.lines("attempt failed") {
		told++
		if m := withheld.FindStringSubmatch(line); m != nil {
			k, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			told += k
		}
	}
	require.Equal(t, n+more, told)
	_, err := b.client.Admin().Purge(t.Context(), groups.Key{Queue: "q"})
	require.NoError(t, err)
}
