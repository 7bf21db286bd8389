package lease

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

const connectionCheck = "client_connection_check_interval"

// settings returns what a worker's connection sets for itself; every one of them may be set by any role. As in all that
// follows, no field is zero.
func (b Bounds) settings(serverVersion int) [][2]string {
	sec := func(d time.Duration) string { return strconv.Itoa(int(max(d.Round(time.Second).Seconds(), 1))) }
	set := [][2]string{
		// A frozen or partitioned worker: the server ends the session. Heartbeats keep it from firing on a live one.
		{"idle_in_transaction_session_timeout", millis(b.ServerSilence)},
		// A vanished machine: probes after a third of the bound, three of them, a sixth apart: 5/6 of it in all, if
		// tcp_user_timeout does not end it before, as on Linux.
		{"tcp_keepalives_idle", sec(b.ServerSilence / 3)},
		{"tcp_keepalives_interval", sec(b.ServerSilence / 6)},
		{"tcp_keepalives_count", "3"},
		// The same with a reply on its way, which keepalives do not cover.
		{"tcp_user_timeout", millis(b.userTimeout())},
		// A worker killed in the middle of a statement: the statement is given up. Not on every server platform.
		{connectionCheck, "1000"},
		// Statements outside a lane's transactions, the scout's above all, whatever the database's defaults are.
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		// A lane without work is an idle session by design.
		{"idle_session_timeout", "0"},
	}
	if serverVersion >= 17 {
		set = append(set, [2]string{"transaction_timeout", "0"}) // a job's time is the worker's JobTimeout
	}
	return append(set, plannerSettings...)
}

// connConfig returns the configuration of a worker's own connection to the database of pool.
func (b Bounds) connConfig(
	ctx context.Context, pool *pgxpool.Config, name string, lane bool,
) (*pgx.ConnConfig, error) {
	cfg := pool.ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = cmp.Or(cfg.RuntimeParams["application_name"], name)
	cfg.RuntimeParams["client_encoding"] = "UTF8" // whatever the database's or the role's default is
	// On a lane, the default handler closes the connection when a query's context ends, which frees the group while its
	// handler goes on. A cancel request leaves the transaction, and so the group, to the library.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		if !lane {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
		}
		return &canceller{conn: c, delay: b.Silence}
	}
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > b.Silence {
		cfg.ConnectTimeout = b.Silence
	}
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			b.boundSocket(tcp)
		}
		return conn, err
	}
	established := cfg.AfterNetConnect
	cfg.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (net.Conn, error) {
		if established != nil {
			var err error
			if conn, err = established(ctx, c, conn); err != nil {
				return conn, err
			}
		}
		return newStream(conn), nil
	}
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, cfg); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// boundSocket makes the worker's side of the socket notice a dead server within Silence, also during a statement.
func (b Bounds) boundSocket(tcp *net.TCPConn) {
	// Best effort: heartbeats cover what the platform does not offer.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: b.Silence / 2, Interval: b.Silence / 10, Count: 4,
	})
	setUserTimeout(tcp, b.Silence)
}

// apply makes the settings on a new connection, in one round trip. A setting that this server or platform does not have
// is left out with a warning, and the others are made one by one. That widens a bound, and breaks nothing.
func (b Bounds) apply(ctx context.Context, conn *pgconn.PgConn, logger *slog.Logger, more ...[2]string) error {
	set := append(b.settings(serverVersion(conn)), more...)
	err := conn.Exec(ctx, setAll(set, "false")).Close()
	if !Refused(err) {
		return err
	}
	for i := range set {
		err := conn.Exec(ctx, setAll(set[i:i+1], "false")).Close()
		if Refused(err) { // by a pooler, say
			logger.Warn("pgfifo: session setting not available", "setting", set[i][0], "error", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// serverVersion returns the major version, or 0 if the server does not tell.
func serverVersion(conn *pgconn.PgConn) int {
	n := 0
	_, _ = fmt.Sscanf(conn.ParameterStatus("server_version"), "%d", &n) // such as 18.1, or 19beta1
	return n
}
