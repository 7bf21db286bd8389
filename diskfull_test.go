//go:build linux

package pgfifo_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// While there is no space for data, what needs some is refused, and the rest goes on.
func TestDiskFull(t *testing.T) {
	c := newCluster(t, nil)
	disk := c.newDisk("disk", 32)
	c.exec(c.port, "CREATE TABLESPACE small LOCATION '"+disk+"'")
	c.exec(c.port, "CREATE DATABASE small TABLESPACE small")
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
	disk := c.newDisk("wal", 96)
	c.initdb("--wal-segsize=1", "--waldir", disk)
	c.serve(c.port)
	c.migrate()
	l := newLoad(c, c.url(c.port))
	// A replica that never comes back: the usual reason why a log grows and grows.
	c.exec(c.port, "SELECT pg_create_physical_replication_slot('gone', true)")
	makeRoom := c.ballast(disk, 58) // enough until the slot is gone, for the work goes on
	stop := background(t, l.worker.Run)
	l.untilFull(func() bool {
		text, err := os.ReadFile(c.LogFile())
		require.NoError(t, err)
		return strings.Contains(string(text), "PANIC") && strings.Contains(string(text), "No space left on device")
	})

	makeRoom()
	c.revive()
	c.exec(c.port, "SELECT pg_drop_replication_slot('gone')")
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
			c.serve(c.port)
			return true
		}
		conn, err := pgx.Connect(c.Context(), c.url(c.port))
		return err == nil && conn.Close(c.Context()) == nil
	})
}
