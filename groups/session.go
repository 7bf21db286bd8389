package groups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/conforming"
)

// A Session bounds how long silence may last between a worker and the server. Zero fields mean the defaults.
//
// The worker gives up before the server does, so a handler's context is cancelled before anybody else can be given its
// group. It hears of a silent server after Silence plus Heartbeat; in a statement by TCP, which probes after half of
// Silence and then every tenth of it, in whole seconds, until Silence is over, by timers that may be an eighth late.
// The later of the two must be less than two thirds of ServerSilence, when the server may give up: 11.25 seconds and 20
// by default. No ServerSilence of 3.375 seconds or less is possible.
//
// What a handler does with the connection meanwhile decides who watches it. Heartbeats are sent whenever the server
// waits for the worker, beside open rows, too; up to 1 MiB of what a handler leaves unread is read ahead to find that
// out. Then:
//
//	the handler's use of the connection         the server                bounded by
//	none, or between statements                 idle in transaction       heartbeats
//	rows or results of a batch open, of which   idle in transaction       heartbeats
//	all is read, or up to 1 MiB is not
//	a statement runs, for as long as it may     active                    TCP
//	COPY FROM, a raw pipeline before its Sync   active (ClientRead)       TCP
//	results that are read slowly                active (ClientWrite)      tcp_user_timeout, if nothing is read
//	more than 1 MiB is left unread              idle in transaction, or   the worker gives up after Silence
//	                                            active (ClientWrite)
//	it waits for a notification                 idle in transaction       heartbeats
//
// While a statement runs or a COPY FROM waits for its source, no timeout of the server's does: a worker that is frozen
// there keeps its group until the statement ends, in COPY FROM until the worker goes on or dies.
//
// While results are left unread beyond that, each heartbeat asks on the Control pool what the server does, from one
// Heartbeat on: a statement that runs yet has time. If the pool has no connection to ask on, the worker gives up after
// Silence in any case.
//
// Each heartbeat looks at the socket, too: a session that was ended is noticed by the next one, also if rows are open.
// Where the server ends a session with more results on their way than sockets hold, only asking finds out, one
// Heartbeat later. Systems other than Linux do not notice it while something is unread, and those without recv(2), such
// as Windows, only by a heartbeat that can be sent. Nor does a connection that the pool's DialFunc wraps in something
// that is neither a syscall.Conn nor has a NetConn method.
type Session struct {
	// Heartbeat is how long a connection that a handler leaves alone says nothing at most: the worker sends something
	// twice as often. Defaults to 1 second; at least 1 millisecond.
	Heartbeat time.Duration
	// Silence is how long the server may leave a heartbeat unanswered before the handler's context is cancelled. It is
	// also how long a cancelled statement may take to end before its connection is given up, and the longest timeout
	// for connecting. Defaults to 10 seconds.
	Silence time.Duration
	// ServerSilence is how long the server waits for a worker that says nothing before it ends the session and frees
	// the group. It becomes idle_in_transaction_session_timeout, tcp_user_timeout and the tcp_keepalives settings of
	// the worker's own connections. Defaults to 30 seconds.
	ServerSilence time.Duration
}

// ErrSession is returned for a Session with a negative bound, with a Heartbeat of less than a millisecond, or whose
// bounds would let the server give a group away before its worker gives up.
var ErrSession = errors.New("groups: invalid session bounds")

// ErrNonconforming is returned by Dial and Connect where standard_conforming_strings is off. There a backslash in a
// value could end the string that bun, which handlers may use, writes it as, and what follows would be read as SQL.
var ErrNonconforming = conforming.Err

func (s Session) withDefaults() Session {
	if s.Heartbeat == 0 {
		s.Heartbeat = time.Second
	}
	if s.Silence == 0 {
		s.Silence = 10 * time.Second
	}
	if s.ServerSilence == 0 {
		s.ServerSilence = 30 * time.Second
	}
	return s
}

// HeartbeatInterval returns Heartbeat, or its default.
func (s Session) HeartbeatInterval() time.Duration { return s.withDefaults().Heartbeat }

// Bound returns ServerSilence, or its default.
func (s Session) Bound() time.Duration { return s.withDefaults().ServerSilence }

// Validate returns an error that wraps ErrSession if the bounds, defaults filled in, make no sense.
func (s Session) Validate() error {
	s = s.withDefaults()
	switch {
	case s.Heartbeat < 0 || s.Silence < 0 || s.ServerSilence < 0:
		return fmt.Errorf("%w: negative duration", ErrSession)
	case s.Heartbeat < time.Millisecond:
		return fmt.Errorf("%w: Heartbeat %v is below a millisecond", ErrSession, s.Heartbeat)
	case s.noticed() >= s.userTimeout():
		return fmt.Errorf("%w: with Silence %v and Heartbeat %v a handler hears of a lost connection after %v, "+
			"which must be less than two thirds of ServerSilence (%v)",
			ErrSession, s.Silence, s.Heartbeat, s.noticed(), s.ServerSilence)
	}
	return nil
}

// noticed is how long it may take a handler to hear that the server is silent: by a heartbeat without an answer, or in
// a statement by TCP, which probes in whole seconds (see boundSocket) by timers that may be an eighth late (Linux's
// timer wheel).
func (s Session) noticed() time.Duration {
	probed, interval := wholeSeconds(s.Silence/2), wholeSeconds(s.Silence/10)
	for probed += interval; probed < s.Silence; {
		probed += interval
	}
	return max(s.Silence+s.Heartbeat, probed+probed/8)
}

func wholeSeconds(d time.Duration) time.Duration {
	return max((d + time.Second - 1).Truncate(time.Second), time.Second)
}

// userTimeout is the least silence after which the server may end a session: tcp_user_timeout cuts its keepalives
// short, too (tcp(7), TCP_USER_TIMEOUT).
func (s Session) userTimeout() time.Duration { return s.ServerSilence * 2 / 3 }

// settings returns what a worker's connection sets for itself; every one of them may be set by any role.
func (s Session) settings(serverVersion int) [][2]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	sec := func(d time.Duration) string { return strconv.Itoa(int(max(d.Round(time.Second).Seconds(), 1))) }
	set := [][2]string{
		// A frozen or partitioned worker: the server ends the session. Heartbeats keep it from firing on a live one.
		{"idle_in_transaction_session_timeout", ms(s.ServerSilence)},
		// A vanished machine: probes after a third of the bound, three of them, a sixth apart: 5/6 of it in all, if
		// tcp_user_timeout does not end it before, as on Linux.
		{"tcp_keepalives_idle", sec(s.ServerSilence / 3)},
		{"tcp_keepalives_interval", sec(s.ServerSilence / 6)},
		{"tcp_keepalives_count", "3"},
		// The same with a reply on its way, which keepalives do not cover.
		{"tcp_user_timeout", ms(s.userTimeout())},
		// A worker killed in the middle of a statement: the statement is given up. Not on every server platform.
		{"client_connection_check_interval", "1000"},
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

// plannerSettings hold the plans of the library's own statements to the one shape they are written for: index probes.
// A queue's tables are empty at one moment and have a million rows at the next, so statistics mislead: a plan made
// for an empty table would read the whole backlog at every claim. A handler that takes the transaction gets the
// defaults back (see handlerSettings).
var plannerSettings = [][2]string{
	{"plan_cache_mode", "force_generic_plan"},
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"jit", "off"},
}

// handlerSettings gives a handler the session's own planner settings until the end of the transaction.
var handlerSettings = func() string {
	sql := ""
	for _, s := range plannerSettings {
		sql += "; SET LOCAL " + s[0] + " TO DEFAULT"
	}
	return sql
}()

// localPlannerSettings puts them in force until the end of a transaction on another connection than the worker's own.
var localPlannerSettings = func() string {
	sql := ""
	for _, s := range plannerSettings {
		sql += "SET LOCAL " + s[0] + " TO " + s[1] + ";"
	}
	return sql
}()

// connConfig returns the configuration of a worker's own connection to the database of pool.
func (s Session) connConfig(
	ctx context.Context, pool *pgxpool.Config, name string, lane bool,
) (*pgx.ConnConfig, error) {
	cfg := pool.ConnConfig.Copy()
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = name
	}
	// On a lane, the default handler closes the connection when a query's context ends, which frees the group while its
	// handler goes on. A cancel request leaves the transaction, and so the group, to the library.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		if !lane {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
		}
		return &canceller{conn: c, delay: s.Silence}
	}
	if cfg.ConnectTimeout == 0 || cfg.ConnectTimeout > s.Silence {
		cfg.ConnectTimeout = s.Silence
	}
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			s.boundSocket(tcp)
		}
		return conn, err
	}
	if established := cfg.AfterNetConnect; lane {
		cfg.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (net.Conn, error) {
			if established != nil {
				var err error
				if conn, err = established(ctx, c, conn); err != nil {
					return conn, err
				}
			}
			return newStream(conn), nil
		}
	}
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, cfg); err != nil {
			return nil, err
		}
	}
	return cfg, nil
}

// boundSocket makes the worker's side of the socket notice a dead server within Silence, also during a statement.
func (s Session) boundSocket(tcp *net.TCPConn) {
	// Best effort: heartbeats cover what the platform does not offer.
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: s.Silence / 2, Interval: s.Silence / 10, Count: 4,
	})
	setUserTimeout(tcp, s.Silence)
}

// apply makes the settings on a new connection, in one round trip. One that this server does not know or platform does
// not have is left out with a warning: it widens a bound, and breaks nothing.
func (s Session) apply(ctx context.Context, conn *pgconn.PgConn, logger *slog.Logger) error {
	set := s.settings(serverVersion(conn))
	pipeline := conn.StartPipeline(ctx)
	for _, kv := range set {
		pipeline.SendQueryParams("SELECT set_config($1, $2, false)",
			[][]byte{[]byte(kv[0]), []byte(kv[1])}, nil, nil, nil)
		if err := pipeline.Sync(); err != nil {
			return err
		}
	}
	for _, kv := range set {
		err := drain(pipeline)
		// A pooler's refusal, say.
		if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Severity != "FATAL" {
			logger.Warn("pgfifo: session setting not available", "setting", kv[0], "error", err)
		} else if err != nil {
			return err
		}
	}
	return pipeline.Close()
}

// drain reads the results of one synced statement.
func drain(pipeline *pgconn.Pipeline) error {
	var first error
	for {
		res, err := pipeline.GetResults()
		if err != nil && first == nil {
			first = err
		}
		switch r := res.(type) {
		case *pgconn.ResultReader:
			if _, err := r.Close(); err != nil && first == nil {
				first = err
			}
		case *pgconn.PipelineSync:
			return first
		case nil:
			if pgErr := new(pgconn.PgError); !errors.As(err, &pgErr) {
				return first
			}
		}
	}
}

// serverVersion returns the major version, or 0 if the server does not tell.
func serverVersion(conn *pgconn.PgConn) int {
	v := conn.ParameterStatus("server_version")
	n := 0
	for _, c := range v {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}
