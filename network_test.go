package pgfifo_test

import (
	"net"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
)

// via returns a URL with another host and port in it; the port may be left out.
func via(t *testing.T, from, host string) string {
	t.Helper()
	u, err := url.Parse(from)
	require.NoError(t, err)
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(host, u.Port())
	}
	u.Host = host
	return u.String()
}

// proxy returns a proxy before the site's server, and the URL that leads through it.
func (s *site) proxy() (*netfault.Proxy, string) {
	s.Helper()
	u, err := url.Parse(s.url)
	require.NoError(s, err)
	p, err := netfault.NewProxy(u.Host)
	require.NoError(s, err)
	s.Cleanup(func() { require.NoError(s, p.Close()) })
	return p, via(s.T, s.url, p.Addr())
}

// requireStarts checks the order of what was begun, where handlers may overlap: with a lost connection, for as long as
// it takes them to learn of it. One lost attempt may not be counted: see "How a crash is counted" in internal/lease.
func (s *site) requireStarts() {
	s.Helper()
	last, uncounted := make(map[string]event), 0
	for _, e := range s.events() {
		if e.kind != "start" {
			continue
		}
		before := last[e.group]
		require.GreaterOrEqual(s, e.job, before.job, "%+v after %+v", e, before)
		if e.job == before.job {
			require.GreaterOrEqual(s, e.attempt, before.attempt, "%+v after %+v", e, before)
			if e.attempt == before.attempt {
				uncounted++
			}
		}
		last[e.group] = e
	}
	require.LessOrEqual(s, uncounted, 1)
}

// A tenth of a second each way changes nothing but the time it takes.
func TestLatency(t *testing.T) {
	s := newSite(t)
	proxy, url := s.proxy()
	proxy.Latency(100 * time.Millisecond)
	want := s.fill(6, 3)
	var procs []*process
	for range 2 {
		procs = append(procs, s.launch(assignment{URL: url, Lanes: 3}, (*exec.Cmd).Start))
	}
	s.drained()
	proxy.Latency(0)
	s.stop(procs...)
	require.Equal(t, want, s.effects())
	s.replay()
	for _, e := range s.events() {
		require.LessOrEqual(t, e.attempt, 1, "%+v", e)
	}
}

// Connections are reset again and again, whatever is under way on them.
func TestResets(t *testing.T) {
	const groups, each, step = 10, 240, 5 // a reset every so many jobs, and enough left for some
	s := newSite(t)
	proxy, url := s.proxy()
	var procs []*process
	for range 2 {
		procs = append(procs, s.launch(assignment{URL: url, Lanes: 4, MaxAttempts: 100}, (*exec.Cmd).Start))
	}
	s.until("both at work, for a worker whose start fails ends", func() bool {
		return s.number(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name LIKE 'worker-%'
			AND query ILIKE 'listen%'`) == len(procs)
	})
	want := s.fill(groups, each)
	resets, broken := 0, 0
	left := s.jobs()
	s.within(6*patience, "an empty queue", func() bool {
		now := s.jobs()
		if now <= left-step && resets < 20 { // each costs a pause before the next dial
			left = now
			resets++
			broken += proxy.Reset()
		}
		return now == 0
	})
	s.stop(procs...)
	t.Log(resets, "resets of", broken, "connections")
	require.GreaterOrEqual(t, resets, 4)
	require.GreaterOrEqual(t, broken, 5*resets, "with the lanes at work")
	require.Equal(t, want, s.effects(), "each once, in order")
	s.requireStarts()
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.dead_letters"))
}
