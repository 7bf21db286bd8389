package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A road is the way to the server, which may lead elsewhere later.
type road struct {
	t      *testing.T
	server string // its host and port
	proxy  *netfault.Proxy
	addr   atomic.Pointer[string]
}

func (b *bed) road() *road {
	b.t.Helper()
	u, err := url.Parse(b.url)
	require.NoError(b.t, err)
	r := &road{t: b.t, server: u.Host}
	r.open()
	return r
}

// open leads it through a new proxy.
func (r *road) open() {
	r.t.Helper()
	proxy, err := netfault.NewProxy(r.server)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = proxy.Close() }) // it may be closed already
	addr := proxy.Addr()
	r.proxy = proxy
	r.addr.Store(&addr)
}

func (r *road) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, *r.addr.Load())
}

// unready waits until the worker is not ready, and returns why.
func unready(t *testing.T, w *fifo.Worker) (err error) {
	t.Helper()
	await(t, "a worker that is not ready", func() bool {
		err = w.Ready()
		return err != nil
	})
	require.ErrorIs(t, err, fifo.ErrNotReady)
	return err
}

// unreadyFor waits until it is not ready for a reason that has the text.
func unreadyFor(t *testing.T, w *fifo.Worker, text string) {
	t.Helper()
	await(t, "a worker of which is said: "+text, func() bool { return strings.Contains(unready(t, w).Error(), text) })
}

func ready(t *testing.T, w *fifo.Worker) {
	t.Helper()
	await(t, "a worker that is ready", func() bool { return w.Ready() == nil })
}

// A worker with idle lanes is ready while the server is there: it says so soon when that has gone, or says nothing any
// more, and again when it is back.
func TestReady(t *testing.T) { overLeases(t, testReady) }

func testReady(t *testing.T, by lease) {
	const lanes, bound = 4, 2*100*time.Millisecond + 2*time.Second
	type row struct {
		leave, back func(r *road) error
		lanes       int // that are taken to be connected meanwhile
		text        string
	}
	pgtest.OverAll(t, map[string]row{
		"gone": {
			func(r *road) error { return r.proxy.Close() },
			func(r *road) error { r.open(); return nil },
			0, "no lane has a connection",
		},
		"silent": {
			func(r *road) error { r.proxy.Drop(netfault.ToServer, true); return nil },
			func(r *road) error { r.proxy.Drop(netfault.ToServer, false); return nil },
			lanes, "it last looked for work ",
		},
	}, func(t *testing.T, x row) {
		b := by.on(newBed(t))
		r := b.road()
		w := b.worker(nop, func(w *fifo.Worker) {
			w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = r.dial }))
			w.Concurrency = lanes
		})
		require.ErrorContains(t, unready(t, w), "Run is not under way")
		require.Zero(t, w.Stats())
		begun := time.Now()
		b.run(w)
		ready(t, w)
		first := w.Stats()
		require.Equal(t, lanes, first.Lanes)
		require.True(t, first.LookedAt.After(begun))
		await(t, "the next look", func() bool { return w.Stats().LookedAt.After(first.LookedAt) })

		left := time.Now()
		require.NoError(t, x.leave(r))
		unreadyFor(t, w, x.text)
		require.Less(t, time.Since(left), bound+time.Second)
		require.Equal(t, x.lanes, w.Stats().Lanes)
		if x.lanes == 0 {
			await(t, "all that is wrong", func() bool {
				var refused *net.OpError
				err := unready(t, w)
				return errors.As(err, &refused) && strings.Contains(err.Error(), "; it last looked for work ")
			})
		}
		require.NoError(t, x.back(r))
		ready(t, w)
		b.send("g", nil)
		b.drained()
		require.NoError(t, w.Ready())
	})
}

// Lanes that have connections again do not make a worker ready that has not looked since the outage, however late the
// next look may be.
func TestNotReadyBeforeALookAfterAnOutage(t *testing.T) {
	overLeases(t, testNotReadyBeforeALookAfterAnOutage)
}

func testNotReadyBeforeALookAfterAnOutage(t *testing.T, by lease) {
	const lanes = 4
	b := by.on(newBed(t))
	r := b.road()
	w := b.worker(nop, rarePolls, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = r.dial }),
			func(c *fifo.Config) { c.PollOnly = true }) // nobody tells it to look
		w.Concurrency = lanes
	})
	b.run(w)
	ready(t, w)
	require.NoError(t, r.proxy.Close())
	unreadyFor(t, w, "no lane has a connection")
	b.exec("ALTER TABLE pgfifo.jobs RENAME TO away")
	r.open()
	await(t, "connections of all lanes", func() bool { return w.Stats().Lanes == lanes })
	require.ErrorContains(t, w.Ready(), ", and has lost its connection since")
	b.exec("ALTER TABLE pgfifo.away RENAME TO jobs")
	ready(t, w)
	require.NoError(t, w.Ready())
}

// Of all lanes that cannot connect the log has one line a second, as of the scout and of the listener. It says how many
// lanes they are, and says it once if each address is tried twice.
func TestLanesWithoutConnectionsAreToldTogether(t *testing.T) {
	overLeases(t, testLanesWithoutConnectionsAreToldTogether)
}

func testLanesWithoutConnectionsAreToldTogether(t *testing.T, by lease) {
	const lanes = 8
	b := by.on(newBed(t))
	r := b.road()
	w := b.worker(nop, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.ConnConfig.DialFunc = r.dial
			cfg.ConnConfig.Fallbacks = []*pgconn.FallbackConfig{{Host: cfg.ConnConfig.Host, Port: cfg.ConnConfig.Port}}
		}))
		w.Concurrency = lanes
	})
	b.run(w)
	ready(t, w)
	begin := time.Now()
	require.NoError(t, r.proxy.Close())
	var lines []string
	await(t, "a line in another second", func() bool {
		lines = b.log.lines(" who=lane ")
		return len(lines) > 1
	})
	for _, who := range []string{" who=lane ", " who=scout ", " who=listener "} {
		told := b.log.lines(who)
		require.LessOrEqual(t, len(told), 1+int(time.Since(begin)/tuning.Wait), told)
	}
	last := lines[len(lines)-1]
	require.Contains(t, last, fmt.Sprintf("who=lane lanes=%d error=", lanes))
	require.Equal(t, 1, strings.Count(last, "dial error"), last)
	r.open()
	ready(t, w)
}

// Looks that fail do not count, whatever else the server answers. It is not asked for one connection after another.
func TestNotReadyWithoutLooks(t *testing.T) {
	b := newBed(t)
	var dials atomic.Int32
	w := b.worker(nop, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { dials.Add(1); return nil }
		}))
	})
	b.run(w)
	ready(t, w)
	b.exec("ALTER TABLE pgfifo.jobs RENAME TO away")
	err := unready(t, w)
	require.ErrorContains(t, err, "it last looked for work ")
	require.ErrorContains(t, err, "42P01", "the last error")
	require.Equal(t, 2, w.Stats().Lanes)
	require.Less(t, dials.Load(), int32(30))
	b.exec("ALTER TABLE pgfifo.away RENAME TO jobs")
	ready(t, w)
}

// A worker whose handlers take all lanes is ready, and one that was told to stop is not.
func TestReadyUntilStopped(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	h := newBlocking()
	w := b.worker(h.handle, oneLane)
	r := b.run(w)
	receive(t, h.started, "the handler")
	ready(t, w)
	looked := w.Stats().LookedAt
	await(t, "the next look", func() bool { return w.Stats().LookedAt.After(looked) })
	require.NoError(t, w.Ready())
	r.cancel()
	require.ErrorContains(t, unready(t, w), "it was told to stop")
	close(h.release)
	require.NoError(t, r.wait())
	require.ErrorContains(t, w.Ready(), "Run is not under way")
	require.Zero(t, w.Stats().Lanes)
	require.Zero(t, w.Stats().LookedAt)
}
