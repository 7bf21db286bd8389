package netfault_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) {
	child()
	pgtest.Main(m)
}

const patience = 10 * time.Second

// A bench is a proxy before a database.
type bench struct {
	*testing.T
	*netfault.Proxy
	direct *pgx.Conn
	url    string // through the proxy
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	direct := pgtest.EmptyURL(t)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	p, err := netfault.NewProxy(u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	u.Host = p.Addr()
	b := &bench{T: t, Proxy: p, direct: pgtest.Conn(t, direct), url: u.String()}
	_, err = b.direct.Exec(t.Context(), "CREATE TABLE notes (n integer)")
	require.NoError(t, err)
	return b
}

func (b *bench) connect() *pgx.Conn {
	b.Helper()
	return pgtest.Conn(b, b.url)
}

// has reports whether a note was committed.
func (b *bench) has(n int) (has bool) {
	b.Helper()
	require.NoError(b, b.direct.QueryRow(b.Context(), "SELECT EXISTS (SELECT FROM notes WHERE n = $1)", n).Scan(&has))
	return has
}

func (b *bench) until(what string, cond func() bool) {
	b.Helper()
	require.Eventually(b, cond, patience, 5*time.Millisecond, what)
}

// clients returns how many sessions came through the proxy.
func (b *bench) clients() (n int) {
	b.Helper()
	require.NoError(b, b.direct.QueryRow(b.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
			"AND pid <> pg_backend_pid()").Scan(&n))
	return n
}

// requireBroken asserts that an error is that of a connection, not an answer of the server.
func (b *bench) requireBroken(conn *pgx.Conn, err error) {
	b.Helper()
	require.Error(b, err)
	pgErr := new(pgconn.PgError)
	require.NotErrorAs(b, err, &pgErr)
	require.True(b, conn.IsClosed())
}

func TestProxyForwards(t *testing.T) {
	b := newBench(t)
	conn := b.connect()
	for _, size := range []int{0, 1, 100_000, 3_000_000} { // less and more than is read at once
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i * i >> 3)
		}
		var got []byte
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT $1::bytea", want).Scan(&got))
		require.Equal(t, want, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, "SELECT pg_sleep(3600)")
		ended <- err
	}()
	b.until("a statement to cancel", func() bool {
		var asleep bool
		require.NoError(t, b.direct.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity "+
			"WHERE datname = current_database() AND wait_event = 'PgSleep')").Scan(&asleep))
		return asleep
	})
	cancel()
	require.Error(t, <-ended)
	b.until("the end of the cancelled statement's session", func() bool { return b.clients() == 0 })
}

func TestProxyPassesTheEndOn(t *testing.T) {
	b := newBench(t)
	conn := b.connect()
	require.NoError(t, conn.Close(t.Context()))
	b.until("the end of the session", func() bool { return b.clients() == 0 })

	conn = b.connect()
	_, err := b.direct.Exec(t.Context(), "SELECT pg_terminate_backend($1)", conn.PgConn().PID())
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "SELECT 1")
	pgErr := new(pgconn.PgError)
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "57P01", pgErr.Code, "the server's last words arrive")
}

func TestProxyRefusesEncryption(t *testing.T) {
	b := newBench(t)
	u, err := url.Parse(b.url)
	require.NoError(t, err)
	u.RawQuery = "sslmode=require"
	_, err = pgx.Connect(t.Context(), u.String())
	require.ErrorContains(t, err, "server refused TLS connection")
}

func TestLatency(t *testing.T) {
	const latency = 50 * time.Millisecond
	b := newBench(t)
	conn := b.connect()
	b.Latency(latency)
	begin := time.Now()
	_, err := conn.Exec(t.Context(), "INSERT INTO notes VALUES (1)")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), 2*latency, "there and back")
	b.Latency(0) // what comes later must not overtake
	var order []int
	rows, err := conn.Query(t.Context(), "SELECT generate_series(1, 20000)")
	require.NoError(t, err)
	order, err = pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	require.Len(t, order, 20000)
	require.IsIncreasing(t, order)
}

func TestReset(t *testing.T) {
	b := newBench(t)
	require.Zero(t, b.Reset())
	conns := []*pgx.Conn{b.connect(), b.connect(), b.connect()}
	require.Equal(t, len(conns), b.Reset())
	for _, conn := range conns {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		b.requireBroken(conn, err)
	}
	b.until("the end of the sessions", func() bool { return b.clients() == 0 })

	plain, err := net.Dial("tcp", b.Addr())
	require.NoError(t, err)
	b.until("the end of a connection that has said nothing", func() bool {
		b.Reset() // it may not have been accepted yet
		require.NoError(t, plain.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		_, err = plain.Read(make([]byte, 1))
		return !errors.Is(err, os.ErrDeadlineExceeded)
	})
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF, "RST, not FIN")
	_, err = b.connect().Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
}

func TestDropToServer(t *testing.T) {
	b := newBench(t)
	conn, other := b.connect(), b.connect()
	b.Drop(netfault.ToServer, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := conn.Exec(ctx, "INSERT INTO notes VALUES (1)")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 2, b.clients(), "the server has heard neither the statement nor the end")
	require.False(t, b.has(1))
	b.Drop(netfault.ToServer, false)
	b.until("the end of the one that lost something", func() bool { return b.clients() == 1 })
	_, err = other.Exec(t.Context(), "INSERT INTO notes VALUES (2)")
	require.NoError(t, err)
}

func TestDropToClient(t *testing.T) {
	b := newBench(t)
	conn := b.connect()
	b.Drop(netfault.ToClient, true)
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "INSERT INTO notes VALUES (1)")
		answered <- err
	}()
	b.until("the statement's effect", func() bool { return b.has(1) })
	// The server's own end of the session does not arrive either.
	_, err := b.direct.Exec(t.Context(), "SELECT pg_terminate_backend($1)", conn.PgConn().PID())
	require.NoError(t, err)
	b.until("the end of the session", func() bool { return b.clients() == 0 })
	b.until("the loss", func() bool { return b.Lossy(netfault.ToClient) }) // a proxy may be late
	select {
	case err := <-answered:
		require.FailNow(t, "the client heard something", "%v", err)
	default:
	}
	b.Drop(netfault.ToClient, false)
	b.requireBroken(conn, <-answered)
}
