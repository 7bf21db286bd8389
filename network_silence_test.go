package pgfifo_test

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

// A silence is one way in which a worker and the server stop hearing each other.
type silence struct {
	name  string
	net   *netfault.Net // nil: a proxy
	cut   func(*netfault.Net, *netfault.Proxy) error
	while string // what the handler does; "hold" if it does nothing
}

// hasty has short bounds; the kernel counts keepalives in seconds.
var hasty = assignment{
	Lanes: 1, Heartbeat: 500 * time.Millisecond, Silence: 2 * time.Second, ServerSilence: 6 * time.Second,
}

func silences() []silence {
	drop := func(dirs ...netfault.Direction) func(*netfault.Net, *netfault.Proxy) error {
		return func(n *netfault.Net, p *netfault.Proxy) (err error) {
			for _, dir := range dirs {
				if n != nil {
					err = errors.Join(err, n.CutOneWay(dir))
				} else {
					p.Drop(dir, true)
				}
			}
			return err
		}
	}
	link := func(n *netfault.Net, _ *netfault.Proxy) error { return n.Cut() }
	both := drop(netfault.ToServer, netfault.ToClient)
	return []silence{
		{name: "link down", net: &netfault.Net{}, cut: link},
		{name: "packets vanish", net: &netfault.Net{}, cut: both},
		{name: "packets to the server vanish", net: &netfault.Net{}, cut: drop(netfault.ToServer)},
		{name: "packets to the client vanish", net: &netfault.Net{}, cut: drop(netfault.ToClient)},
		// With a statement under way there are no heartbeats: the kernels have to notice.
		{name: "link down in a statement", net: &netfault.Net{}, cut: link, while: "query"},
		{name: "packets vanish in a statement", net: &netfault.Net{}, cut: both, while: "query"},
		{name: "link down in an answer", net: &netfault.Net{}, cut: link, while: "stream"},
		{name: "packets vanish in an answer", net: &netfault.Net{}, cut: both, while: "stream"},
		{name: "bytes are swallowed", cut: both},
		{name: "bytes to the server are swallowed", cut: drop(netfault.ToServer)},
		{name: "bytes to the client are swallowed", cut: drop(netfault.ToClient)},
	}
}

// Silence that is longer than every bound: the handler is told in time, its successor starts in time, and after it,
// nothing of it remains, and the worker comes back.
func TestSilence(t *testing.T) {
	t.Parallel()
	all := silences()
	var listen []string
	for i, c := range all {
		if c.net == nil {
			continue
		}
		n, err := netfault.NewNet()
		if err != nil {
			require.ErrorIs(t, err, netfault.ErrNoNet)
			t.Logf("left out: %s: %v", c.name, err)
			all[i].cut = nil
			continue
		}
		t.Cleanup(func() { require.NoError(t, n.Close()) })
		all[i].net = n
		listen = append(listen, n.HostIP())
	}
	srv, err := pgserver.Start(t.Context(), &pgserver.Options{Listen: listen, Logf: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	admin := pgtest.Connect(t, srv.URL)
	for i, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			switch {
			case c.cut == nil:
				t.Skip("skipped: no network namespace, see above")
			case c.net != nil && srv.Source != "local":
				t.Skip("skipped: only a local server can listen to a network namespace; this one is from ", srv.Source)
			}
			db := fmt.Sprint("silence_", i)
			_, err := admin.Exec(t.Context(), "CREATE DATABASE "+db)
			require.NoError(t, err)
			s := newSiteAt(t, databaseURL(t, srv.URL, db))
			c.run(s)
		})
	}
}

func (c silence) run(s *site) {
	s.Helper()
	a := hasty
	launch := (*exec.Cmd).Start
	var proxy *netfault.Proxy
	heal := func() error { return c.net.Heal() }
	if c.net != nil {
		a.URL, launch = via(s.T, s.URL, c.net.HostIP()), c.net.Run
	} else {
		proxy, a.URL = s.proxy()
		heal = func() error {
			proxy.Drop(netfault.ToServer, false)
			proxy.Drop(netfault.ToClient, false)
			return nil
		}
	}
	told := "lost"
	if c.while == "" {
		c.while = "hold"
	} else {
		told = "end" // the statement's error says so
	}
	ids := s.enqueue(message("g", task{Do: c.while, Until: 1}), message("g", task{}))
	first := s.launch(a, launch)
	if c.while == "hold" {
		require.Equal(s, first.name, s.waiting(ids[0], 1))
	} else {
		s.until("a running statement", func() bool {
			return s.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"+
				" AND state = 'active' AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep(%'") == 1
		})
	}
	second := s.launch(hasty, (*exec.Cmd).Start)
	<-second.ready

	require.NoError(s, c.cut(c.net, proxy))
	begin := time.Now()
	s.within(hasty.Heartbeat+hasty.Silence+2*time.Second, "the news that the job is lost", func() bool {
		return len(s.find(told, ids[0])) == 1
	})
	lost := time.Since(begin)
	s.within(hasty.ServerSilence+2*time.Second-time.Since(begin), "its next attempt", func() bool {
		return len(s.find("start", ids[0])) == 2
	})
	s.Logf("lost after %v, started again before %v", lost, time.Since(begin))
	s.drained()
	s.replay() // the handler had returned when its successor started
	require.Equal(s, second.name, s.find("start", ids[0])[1].worker)
	require.Equal(s, map[string][]int64{"g": ids}, s.effects())
	require.Equal(s, 2, s.number("SELECT attempt FROM effects WHERE job_id = $1", ids[0]),
		"nothing of the first attempt")
	s.stop(second)

	require.NoError(s, heal())
	more := s.enqueue(message("g", task{}), message("h", task{}))
	s.drained()
	require.Equal(s, first.name, s.find("start", more[0])[0].worker)
	require.Equal(s, map[string][]int64{"g": append(ids, more[0]), "h": more[1:]}, s.effects())
	s.stop(first)
	s.replay()
}

// databaseURL returns the URL of a database of a server, migrated.
func databaseURL(t *testing.T, server, db string) string {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.Path = "/" + db
	require.NoError(t, migrations.Up(t.Context(), pgtest.Connect(t, u.String()), nil))
	return u.String()
}
