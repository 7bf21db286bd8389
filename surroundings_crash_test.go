//go:build unix

package pgfifo_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// freezeWalWriter keeps the server from writing what no commit waits for, as a power failure would; thaw it just before
// the crash. It works three times a second otherwise, and an immediate shutdown alone would lose next to nothing.
func (c *cluster) freezeWalWriter() (thaw func()) {
	c.Helper()
	pid := query[int](c, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
	flushes := func() bool { // more than there are buffers for, so that each of them is made anew
		ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, c.url(c.port))
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close(context.Background()) }()
		_, err = conn.Exec(ctx, "BEGIN; SET LOCAL synchronous_commit = on; "+
			"SELECT pg_logical_emit_message(true, 'frozen', repeat(' ', 5 << 20)); COMMIT")
		return err == nil
	}
	for frozen := false; !frozen; {
		require.NoError(c, c.Context().Err())
		require.NoError(c, syscall.Kill(pid, syscall.SIGSTOP))
		if frozen = flushes(); !frozen { // it holds a lock that others need
			require.NoError(c, syscall.Kill(pid, syscall.SIGCONT))
		}
	}
	return func() {
		_ = syscall.Kill(pid, syscall.SIGQUIT) // what it gets from the crash, and before it goes on
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// unwritten waits until n completions are in memory only: a commit that waits for the disk, as that of a mark does,
// takes all there are before it along. It stops the workers, so that nothing is written before the crash: call proceed
// after that. was is the state while they are stopped.
func (s *site) unwritten(n int, procs []*process) (was state, proceed func()) {
	s.Helper()
	signal := func(sig syscall.Signal) {
		for _, p := range procs {
			_ = p.cmd.Process.Signal(sig)
		}
	}
	proceed = func() { signal(syscall.SIGCONT) }
	s.Cleanup(proceed)
	look := func() (written string, done int) {
		require.NoError(s, s.Pool.QueryRow(s.Context(), "SELECT pg_current_wal_lsn(), (SELECT count(*) FROM effects)").
			Scan(&written, &done))
		return written, done
	}
	written, from := look()
	s.within(3*patience, "completions that are not written", func() bool {
		now, done := look()
		if now != written {
			written, from = now, done
		}
		if done < from+n {
			return false
		}
		signal(syscall.SIGSTOP)
		busy := s.number("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()")
		was = s.state(s.URL)
		if now, _ = look(); busy == 0 && now == written {
			return true
		}
		proceed()
		return false
	})
	return was, proceed
}

// left returns a copy of what a crash has left.
func (c *cluster) left() *cluster {
	c.Helper()
	left := c.another()
	left.run("cp", "-R", c.data(), left.data())
	left.run("rm", "-f", filepath.Join(left.data(), "postmaster.pid"))
	return left
}

// aftermath serves the cluster again, at once, for what workers remember is fresh then. It returns what the crash has
// left, before anybody works on it.
func (c *cluster) aftermath(s *site) state {
	c.Helper()
	left := c.left()
	c.serve()
	left.serve()
	defer left.crash()
	return s.state(left.url(left.port))
}

// lazy has what no commit flushes stay in memory until the crash.
var lazy = map[string]string{
	"bgwriter_lru_maxpages": "0", "autovacuum": "off", "wal_buffers": "4MB", "checkpoint_timeout": "1h",
}

// The server crashes in the middle of the work, and workers and producer find it again by themselves. With durable
// commits nothing is lost that was acknowledged. With synchronous_commit=off the newest commits are, and what is left
// is still sound: a prefix of the enqueues, a prefix of each group's effects, each effect with its job's completion.
func TestServerCrash(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"durable":                            "",
		"synchronous_commit=off":             "ALTER SYSTEM SET synchronous_commit = off",
		"synchronous_commit=off of the role": "ALTER ROLE postgres SET synchronous_commit = off",
	}, func(t *testing.T, off string) {
		c := newCluster(t, lazy)
		s := c.site()
		s.task = task{Do: "dwell"} // there is enough to do when the server crashes
		backlog := s.fill(40, 8)
		if off != "" {
			c.exec(off)
			c.exec("SELECT pg_reload_conf()")
			s.Pool.Reset()
		}
		c.exec("CHECKPOINT") // the backlog is on disk
		thaw := c.freezeWalWriter()
		p := s.produce()
		p.more(10)
		procs := []*process{s.start(1), s.start(1)}
		s.atWork(len(procs))
		s.until("some of the backlog", func() bool { return s.number("SELECT count(*) FROM effects") >= 100 })

		var before state
		proceed := func() {}
		if off != "" {
			before, proceed = s.unwritten(10, procs)
		} else {
			before = s.state(s.URL)
		}
		thaw()
		c.crash()
		proceed()
		acked := p.down()
		after := c.aftermath(s)
		l := s.compare(acked, before, after)
		for _, ids := range backlog {
			require.Empty(t, minus(ids, after.all()), "on disk before")
		}
		again := both(l.undone, after.jobs)

		s.Pool.Reset()
		s.goOn(p, procs, len(acked), after, &l)
		t.Logf("%d enqueued and %d done before: %v; %d done jobs ran again, %d done in the end",
			len(acked), len(before.effects), l, len(again), s.number("SELECT count(*) FROM effects"))
		if off == "" {
			require.Empty(t, l.jobs)
			require.Empty(t, l.undone)
		} else {
			require.NotEmpty(t, l.jobs, "it was not tried")
			require.NotEmpty(t, again, "it was not tried")
		}
	})
}

// The server crashes when a relaxed queue has been worked for a while, and a worker has been killed before. No enqueue
// is lost. The last completions are undone, each with its effect, and those jobs run again in order; nothing of a queue
// that is not relaxed is.
func TestRelaxedServerCrash(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"relaxed": true, "durable": false}, func(t *testing.T, relaxed bool) {
		c := newCluster(t, lazy)
		s := c.site()
		s.task = task{Do: "dwell"}
		s.fill(80, 10)
		c.exec("CHECKPOINT")
		thaw := c.freezeWalWriter()
		start := func() *process {
			return s.launch(assignment{Lanes: 2, Relaxed: relaxed}, (*exec.Cmd).Start)
		}
		done := func() int { return s.number("SELECT count(*) FROM effects") }
		procs := []*process{start(), start()}
		s.atWork(len(procs))
		before := s.produce()
		before.more(20)
		before.end() // what is done from now on, nobody's commit has on disk as well
		s.kill(procs[0])
		procs[0] = start()
		s.atWork(len(procs) + 1)
		var was state
		proceed := func() {}
		if relaxed {
			was, proceed = s.unwritten(20, procs)
		} else {
			some := done() + 20
			s.until("some of the backlog", func() bool { return done() >= some })
			was = s.state(s.URL)
		}

		thaw()
		c.crash()
		proceed()
		after := c.aftermath(s)
		l := s.compare(before.acked, was, after)
		require.Empty(t, l.jobs, "an enqueue")
		require.Empty(t, minus(was.all(), after.all()), "neither done nor there")
		if relaxed {
			require.NotEmpty(t, both(l.undone, after.jobs), "it was not tried")
		} else {
			require.Empty(t, l.undone)
		}

		s.Pool.Reset()
		s.goOn(s.produce(), procs, 0, after, &l)
		t.Logf("%d enqueued and %d done before: %v", len(before.acked), len(was.effects), l)
	})
}

// copy returns a streaming standby of the cluster, or skips the test.
func (c *cluster) copy() *cluster {
	c.Helper()
	backup := filepath.Join(c.bin, "pg_basebackup")
	if !isFile(backup) {
		c.Skip("skipped: no pg_basebackup beside " + filepath.Join(c.bin, "postgres"))
	}
	standby := c.another()
	standby.run(backup, "-D", standby.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", c.port))
	standby.serve()
	c.await("the standby's stream", func() bool {
		return query[int](c, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1
	})
	return standby
}

// caughtUp waits until the standby has all that the primary has flushed by now.
func (c *cluster) caughtUp(standby *cluster) {
	c.Helper()
	lsn := query[string](c, "SELECT pg_current_wal_flush_lsn()::text")
	standby.await("the standby to catch up", func() bool {
		return query[bool](standby, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", lsn)
	})
}

// A primary dies in the middle of the work, and its standby is promoted; workers and producer go there by themselves. A
// synchronous standby has all that was acknowledged, an asynchronous one a prefix of it.
func TestPromotedStandby(t *testing.T) {
	pgtest.OverEach(t, []string{"synchronous", "asynchronous"}, func(t *testing.T, mode string) {
		primary := newCluster(t, nil)
		primary.migrate()
		standby := primary.copy()
		_, err := pgtest.Conn(t, standby.url(standby.port)).Exec(t.Context(), "BEGIN READ WRITE")
		require.True(t, lease.ServerWide(err), "no group is to blame: %v", err)
		if mode == "synchronous" {
			primary.exec("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
			primary.exec("SELECT pg_reload_conf()")
			primary.await("a synchronous standby", func() bool {
				return query[int](primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
			})
		}
		s := newSiteAt(t, strings.Replace(primary.url(primary.port, standby.port), "=any", "=read-write", 1))
		s.gate()
		gated := s.enqueue(message("gate", task{Do: "gate"}), message("gate", task{}))
		p := s.produce()
		procs := []*process{s.start(4), s.start(4)}
		s.waiting(gated[0], 1) // runs when the primary dies
		s.atWork(len(procs))
		p.more(40)
		primary.caughtUp(standby)
		if mode == "asynchronous" { // cut off, it knows nothing of what follows
			standby.exec("ALTER SYSTEM SET primary_conninfo = ''")
			standby.exec("SELECT pg_reload_conf()")
			standby.await("the end of the stream", func() bool {
				return query[int](standby, "SELECT count(*) FROM pg_stat_wal_receiver") == 0
			})
		}
		p.more(40)

		before := s.state(primary.url(primary.port))
		primary.crash()
		acked := append(p.down(), gated...)
		replayed, looks := "", 0 // the last record may have come in part: then less is replayed than received
		standby.await("the rest of the stream to be replayed", func() bool {
			now := query[string](standby, `SELECT pg_last_wal_replay_lsn()::text ||
				CASE WHEN EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') THEN ' streaming'
				     WHEN pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() THEN ' all' ELSE '' END`)
			if looks++; now != replayed {
				replayed, looks = now, 0
			}
			return !strings.Contains(now, "streaming") && (strings.Contains(now, "all") || looks >= 100)
		})
		after := s.state(standby.url(standby.port))
		s.refusesStandby(standby.url(standby.port))
		require.True(t, query[bool](standby, "SELECT pg_promote(true, 60)"))
		l := s.compare(acked, before, after)
		require.Contains(t, after.jobs, gated[0])

		s.within(3*patience, "a connection to the new primary", func() bool {
			s.Pool.Reset()
			return s.Pool.Ping(t.Context()) == nil
		})
		s.goOn(p, procs, len(acked)-len(gated), after, &l)
		t.Logf("%d enqueued and %d done before: %v; %d done in the end",
			len(acked), len(before.effects), l, s.number("SELECT count(*) FROM effects"))
		// The lock of the job that ran was on the standby, and its transaction has no end there: a lost attempt.
		starts := s.find("start", gated[0])
		require.GreaterOrEqual(t, len(starts), 2)
		require.Equal(t, 2, starts[1].attempt)
		if mode == "synchronous" {
			require.Empty(t, l.jobs)
			require.Empty(t, l.undone)
		} else {
			require.NotEmpty(t, l.jobs, "it was not tried")
		}
	})
}

// A copy of a whole server has the names and the identifier of that, and is another one all the same.
func TestDirectToACopy(t *testing.T) {
	one := newCluster(t, nil)
	one.migrate()
	other := one.copy()
	require.True(t, query[bool](other, "SELECT pg_promote(true, 60)"))
	client := fifo.Open(pgtest.Connect(t, one.url(one.port)), nil)
	defer func() { require.NoError(t, client.Close()) }()
	direct, err := pgx.ParseConfig(other.url(other.port))
	require.NoError(t, err)
	w := &fifo.Worker{Client: client, Direct: direct}
	w.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	require.ErrorIs(t, w.Run(ctx), fifo.ErrInvalidWorker)
}

// refusesStandby requires that no worker begins on a standby.
func (s *site) refusesStandby(url string) {
	s.Helper()
	client := fifo.Open(pgtest.Connect(s, url), nil)
	defer func() { _ = client.Close() }()
	w := &fifo.Worker{Client: client}
	w.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
	_, err := w.RunOne(s.Context())
	require.ErrorIs(s, err, fifo.ErrStandby)
	require.ErrorIs(s, w.Run(s.Context()), fifo.ErrStandby)
}

// Whoever does not wait for a standby does not wait for it with the mark of an attempt, either.
func TestMarksDoNotWaitForAStandby(t *testing.T) {
	c := newCluster(t, map[string]string{"synchronous_standby_names": "nobody", "synchronous_commit": "local"})
	s := c.site()
	for range 5 { // each would wait for Worker.Silence
		s.enqueue(message("g", task{}))
	}
	p := s.start(1)
	s.drained()
	s.stop(p)
}
