//go:build unix

package pgfifo_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// copy returns a streaming standby of the cluster, or skips the test.
func (c *cluster) copy() *cluster {
	c.Helper()
	backup := filepath.Join(c.bin, "pg_basebackup")
	if !isFile(backup) {
		c.Skip("skipped: no pg_basebackup beside " + filepath.Join(c.bin, "postgres"))
	}
	standby := &cluster{newProgram(c.T, syscall.SIGQUIT), c.bin, c.set}
	standby.run(backup, "-D", standby.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", c.port))
	standby.serve(standby.port)
	c.await("the standby's stream", func() bool {
		return query[int](c, c.port, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1
	})
	return standby
}

// caughtUp waits until the standby has all that the primary has flushed by now.
func (c *cluster) caughtUp(standby *cluster) {
	c.Helper()
	lsn := query[string](c, c.port, "SELECT pg_current_wal_flush_lsn()::text")
	standby.await("the standby to catch up", func() bool {
		return query[bool](standby, standby.port, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", lsn)
	})
}

// A primary dies in the middle of the work, and its standby is promoted; workers and producer go there by themselves. A
// synchronous standby has all that was acknowledged, an asynchronous one a prefix of it.
func TestPromotedStandby(t *testing.T) {
	overEach(t, []string{"synchronous", "asynchronous"}, func(t *testing.T, mode string) {
		primary := newCluster(t, nil)
		primary.migrate()
		standby := primary.copy()
		if mode == "synchronous" {
			primary.exec(primary.port, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
			primary.exec(primary.port, "SELECT pg_reload_conf()")
			primary.await("a synchronous standby", func() bool {
				return query[int](primary, primary.port,
					"SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
			})
		}
		s := newSiteAt(t, strings.Replace(primary.url(primary.port, standby.port), "=any", "=read-write", 1))
		s.gate()
		gated := s.enqueue(message("gate", task{Do: "gate"}), message("gate", task{}))
		p := s.produce()
		procs := []*process{s.start(4), s.start(4)}
		s.waiting(gated[0], 1) // runs when the primary dies
		s.atWork(len(procs))
		p.more(100)
		primary.caughtUp(standby)
		if mode == "asynchronous" { // cut off, it knows nothing of what follows
			standby.exec(standby.port, "ALTER SYSTEM SET primary_conninfo = ''")
			standby.exec(standby.port, "SELECT pg_reload_conf()")
			standby.await("the end of the stream", func() bool {
				return query[int](standby, standby.port, "SELECT count(*) FROM pg_stat_wal_receiver") == 0
			})
		}
		p.more(100)

		before := s.state(primary.url(primary.port))
		primary.crash()
		acked := append(p.down(), gated...)
		replayed, looks := "", 0 // the last record may have come in part: then less is replayed than received
		standby.await("the rest of the stream to be replayed", func() bool {
			now := query[string](standby, standby.port, `SELECT pg_last_wal_replay_lsn()::text ||
				CASE WHEN EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') THEN ' streaming'
				     WHEN pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() THEN ' all' ELSE '' END`)
			if looks++; now != replayed {
				replayed, looks = now, 0
			}
			return !strings.Contains(now, "streaming") && (strings.Contains(now, "all") || looks >= 100)
		})
		after := s.state(standby.url(standby.port))
		require.True(t, query[bool](standby, standby.port, "SELECT pg_promote(true, 60)"))
		l := s.compare(acked, before, after)
		require.Contains(t, after.jobs, gated[0])

		s.within(3*patience, "a connection to the new primary", func() bool {
			s.pool.Reset()
			return s.pool.Ping(t.Context()) == nil
		})
		p.more(100)
		p.end()
		s.drained()
		s.stop(procs...)
		s.requireAll(p, len(acked)-len(gated), after, &l)
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

// Whoever does not wait for a standby does not wait for it with the mark of an attempt, either.
func TestMarksDoNotWaitForAStandby(t *testing.T) {
	c := newCluster(t, map[string]string{"synchronous_standby_names": "nobody", "synchronous_commit": "local"})
	c.migrate()
	s := newSiteAt(t, c.url(c.port))
	for range 5 { // each would wait for Worker.Silence
		s.enqueue(message("g", task{}))
	}
	p := s.start(1)
	s.drained()
	s.stop(p)
}
