//go:build linux

package pgfifo_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/daemon"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// While there is no space for data, what needs some is refused, and the rest goes on.
func TestDiskFull(t *testing.T) {
	c := newCluster(t, nil)
	disk := c.newDisk("disk", 24)
	c.exec("CREATE TABLESPACE small LOCATION '" + disk + "'")
	c.exec("CREATE DATABASE small TABLESPACE small")
	url := databaseURL(t, c.url(c.port), "small")
	l := newLoad(c, url)
	makeRoom := c.ballast(disk, 6)
	stop := background(t, l.worker.Run)
	l.untilFull(func() bool { return true })
	require.NotZero(t, l.refusals["53100"], "disk_full: %v", l.refusals)
	require.Zero(t, l.unknown.Load(), "every error says that nothing was enqueued")

	makeRoom()
	l.requireDrained()
	_, err := l.client.Enqueue(t.Context(), message("after", task{}))
	require.NoError(t, err)
	stop()
}

// Without space for its log, the server stops. It is started again when there is some.
func TestLogDiskFull(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t, map[string]string{"min_wal_size": "2MB", "max_wal_size": "8MB"})
	disk := c.newDisk("wal", 64)
	c.fill()
	c.run(filepath.Join(c.bin, "pg_resetwal"), "--wal-segsize=1", "-D", c.data())
	c.run("cp", "-R", filepath.Join(c.data(), "pg_wal")+"/.", disk)
	c.run("rm", "-R", filepath.Join(c.data(), "pg_wal"))
	c.run("ln", "-s", disk, filepath.Join(c.data(), "pg_wal"))
	c.serve()
	c.migrate()
	l := newLoad(c, c.url(c.port))
	// A replica that never comes back: the usual reason why a log grows and grows.
	c.exec("SELECT pg_create_physical_replication_slot('gone', true)")
	makeRoom := c.ballast(disk, 44) // enough until the slot is gone, for the work goes on
	stop := background(t, l.worker.Run)
	l.untilFull(func() bool {
		text, err := os.ReadFile(c.LogFile())
		require.NoError(t, err)
		return strings.Contains(string(text), "PANIC") && strings.Contains(string(text), "No space left on device")
	})

	makeRoom()
	c.revive()
	c.exec("SELECT pg_drop_replication_slot('gone')")
	l.requireDrained()
	stop()
}

// untilFull produces until the disk has been full for a while, and checks that the worker has kept its temper
// meanwhile.
func (l *load) untilFull(full func() bool) {
	l.Helper()
	const failures = 20 // the first ones; then as many again, and more
	l.produce(failures, full)
	begin, before := time.Now(), l.trouble()
	l.produce(l.failed.Load()+l.unknown.Load()+5*failures, full)
	took := time.Since(begin)
	trouble := l.trouble() - before
	l.Logf("full for %v: %d troubles of the worker", took, trouble)
	// Six groups are tried every 100 ms, and each of the failures may be logged.
	require.LessOrEqual(l, trouble, int64(300+200*took.Seconds()))
}

// trouble counts what has gone wrong for the worker.
func (l *load) trouble() int64 {
	s := l.worker.Stats()
	return s.Retried + s.Returned + s.Unknown + s.Lost + l.logged.Load()
}

// revive waits until the server has recovered by itself, or starts it again if it has given up.
func (c *cluster) revive() {
	c.Helper()
	c.await("the server's recovery", func() bool {
		if c.Ended() {
			c.Log("the server had stopped")
			c.serve()
			return true
		}
		return c.answers()
	})
}

// newDisk mounts a small disk of a cluster's own below its folder, and returns its folder, for the cluster's owner.
func (p *program) newDisk(name string, megabytes int) string {
	p.Helper()
	if os.Geteuid() != 0 {
		p.Skip("skipped: it takes root to mount a small disk that can be full")
	}
	dir := filepath.Join(p.Dir, name)
	require.NoError(p, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		p.Skip("skipped: this machine mounts no tmpfs: ", err)
	}
	guard, err := daemon.NewGuard(`cat >/dev/null; umount -l "$1" 2>/dev/null; :`, dir) // if we are killed
	require.NoError(p, err)
	p.Cleanup(func() {
		require.NoError(p, p.Stop())
		require.NoError(p, syscall.Unmount(dir, 0))
		require.NoError(p, guard.Close())
	})
	data := filepath.Join(dir, "data") // PostgreSQL wants an empty folder that it may close to others
	require.NoError(p, os.Mkdir(data, 0o700))
	require.NoError(p, errors.Join(p.Own(dir), p.Own(data)))
	return data
}

// ballast fills some of a disk with what can be removed.
func (p *program) ballast(disk string, megabytes int) (remove func()) {
	p.Helper()
	path := filepath.Join(filepath.Dir(disk), "ballast")
	require.NoError(p, os.WriteFile(path, make([]byte, megabytes<<20), 0o600))
	return func() { require.NoError(p, os.Remove(path)) }
}

// A load is what producers and a worker do while the disk fills up. Each producer has groups of its own, so that it
// knows their order.
type load struct {
	*cluster
	pool   *pgxpool.Pool
	client *fifo.Client
	worker *fifo.Worker
	logged atomic.Int64

	calls, failed, unknown atomic.Int64

	mu       sync.Mutex
	done     map[string][]call // what was enqueued, by group
	maybe    map[string]bool   // calls whose error does not say
	refusals map[string]int    // errors of enqueues, by SQLSTATE
}

// A call is what one message of an enqueue carries: which enqueue, and which of its messages.
type call struct {
	Call string
	N    int
	Pad  string
	id   int64
}

const (
	perCall   = 5 // messages of an enqueue
	producers = 3
)

func newLoad(c *cluster, url string) *load {
	c.Helper()
	db := pgtest.At(c.T, url)
	l := &load{
		cluster: c, pool: db.Pool, done: make(map[string][]call), maybe: make(map[string]bool),
		refusals: make(map[string]int),
	}
	l.client = fifo.Open(db.Pool, &fifo.Config{Logger: slog.New(counter{&l.logged})})
	c.Cleanup(func() { _ = l.client.Close() })
	l.worker = &fifo.Worker{
		Client: l.client, Concurrency: 3, MaxAttempts: 1000,
		Retry:     fifo.Backoff(100*time.Millisecond, 100*time.Millisecond),
		Heartbeat: 500 * time.Millisecond, Silence: 3 * time.Second, ServerSilence: 9 * time.Second,
	}
	l.worker.Handle(queue, fifo.JSON(func(ctx context.Context, job *fifo.Job, m call) error {
		return execute(ctx, job, "INSERT INTO calls (group_id, job_id, call, n) VALUES ($1, $2, $3, $4)",
			job.GroupID, job.ID, m.Call, m.N)
	}))
	db.Exec(`CREATE TABLE calls (
		seq bigint GENERATED ALWAYS AS IDENTITY, group_id text NOT NULL, job_id bigint NOT NULL, call text NOT NULL,
		n integer NOT NULL)`)
	return l
}

// produce enqueues as fast as it goes, and once that fails every 20 milliseconds, until so many enqueues in all have
// failed and enough says so.
func (l *load) produce(failures int64, enough func() bool) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 18*patience)
	defer cancel()
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil && (l.failed.Load()+l.unknown.Load() < failures || !enough()); n++ {
				if !l.enqueue(ctx, p, n) {
					<-tick.C
				}
			}
		})
	}
	all.Wait()
	require.NoError(l, ctx.Err(), "the disk was never full: %d failures", l.failed.Load()+l.unknown.Load())
}

// pad makes a message large, and cannot be compressed.
var pad = func() string {
	random := make([]byte, 18000)
	_, _ = rand.Read(random) // which never fails
	return base64.StdEncoding.EncodeToString(random)
}()

// enqueue makes one call, and takes down what became of it.
func (l *load) enqueue(ctx context.Context, producer, n int) bool {
	group, name := fmt.Sprintf("p%d-%d", producer, n%2), fmt.Sprint(l.calls.Add(1))
	calls, msgs := make([]call, perCall), make([]fifo.Message, perCall)
	for i := range calls {
		calls[i] = call{Call: name, N: i, Pad: pad}
		msgs[i] = fifo.Message{Queue: queue, GroupID: group, Payload: calls[i]}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receipts, err := l.client.Enqueue(ctx, msgs...)
	l.mu.Lock()
	defer l.mu.Unlock()
	pgErr := new(pgconn.PgError)
	switch {
	case err == nil:
		for i, r := range receipts {
			calls[i].id, calls[i].Pad = r.ID, ""
		}
		l.done[group] = append(l.done[group], calls...)
		return true
	case errors.As(err, &pgErr) && pgErr.Code[:2] != "57": // 57P01..3: the server goes down, perhaps after the commit
		l.failed.Add(1)
		l.refusals[pgErr.Code]++
	default:
		l.unknown.Add(1)
		l.maybe[name] = true
	}
	return false
}

// requireDrained waits for the end of the work and checks what was done: everything that was enqueued, once, in order;
// nothing that was refused; calls whose error did not say, whole or not at all.
func (l *load) requireDrained() {
	l.Helper()
	left := math.MaxInt
	for left > 0 { // for as long as there is progress
		before := left
		l.await(fmt.Sprintf("fewer than %d jobs", before), func() bool {
			err := l.pool.QueryRow(l.Context(), "SELECT count(*) FROM pgfifo.jobs").Scan(&left)
			return err == nil && left < before
		})
	}
	rows, err := l.pool.Query(l.Context(), "SELECT group_id, job_id, call, n FROM calls ORDER BY seq")
	require.NoError(l, err)
	got, whole := make(map[string][]call), make(map[string]int)
	var group string
	var c call
	_, err = pgx.ForEachRow(rows, []any{&group, &c.id, &c.Call, &c.N}, func() error {
		if l.maybe[c.Call] {
			whole[c.Call]++
		} else {
			got[group] = append(got[group], c)
		}
		return nil
	})
	require.NoError(l, err)
	for name, n := range whole {
		require.Equal(l, perCall, n, name)
	}
	total := 0
	for group, want := range l.done {
		total += len(want)
		require.True(l, slices.IsSortedFunc(want, func(a, b call) int { return int(a.id - b.id) }))
		for i := range want {
			require.Less(l, i, len(got[group]), "%d of %d jobs of group %s", len(got[group]), len(want), group)
			require.Equal(l, want[i], got[group][i], "job %d of %d of group %s", i, len(want), group)
		}
		require.Len(l, got[group], len(want), "jobs of group %s, all in order but the last", group)
	}
	require.Len(l, got, len(l.done))
	require.NotZero(l, total)
	var dead int
	require.NoError(l, l.pool.QueryRow(l.Context(), "SELECT count(*) FROM pgfifo.dead_letters").Scan(&dead))
	require.Zero(l, dead)
	l.Logf("%d jobs done; enqueues: %d refused %v, %d unknown of which %d were done",
		total, l.failed.Load(), l.refusals, l.unknown.Load(), len(whole))
}

// A counter is a log of which only the number of warnings and errors is of interest.
type counter struct{ n *atomic.Int64 }

func (c counter) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (c counter) WithAttrs([]slog.Attr) slog.Handler               { return c }
func (c counter) WithGroup(string) slog.Handler                    { return c }

func (c counter) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}
