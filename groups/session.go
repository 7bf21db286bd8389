package groups

import (
	"errors"
	"fmt"
	"time"
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

// WithDefaults returns the Session with its zero fields replaced.
func (s Session) WithDefaults() Session {
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
func (s Session) HeartbeatInterval() time.Duration { return s.WithDefaults().Heartbeat }

// Bound returns ServerSilence, or its default.
func (s Session) Bound() time.Duration { return s.WithDefaults().ServerSilence }

// Validate returns an error that wraps ErrSession if the bounds, defaults filled in, make no sense.
func (s Session) Validate() error {
	s = s.WithDefaults()
	switch {
	case s.Heartbeat < 0 || s.Silence < 0 || s.ServerSilence < 0:
		return fmt.Errorf("%w: negative duration", ErrSession)
	case s.Heartbeat < time.Millisecond:
		return fmt.Errorf("%w: Heartbeat %v is below a millisecond", ErrSession, s.Heartbeat)
	case s.noticed() >= s.UserTimeout():
		return fmt.Errorf("%w: with Silence %v and Heartbeat %v a handler hears of a lost connection after %v, "+
			"which must be less than two thirds of ServerSilence (%v)",
			ErrSession, s.Silence, s.Heartbeat, s.noticed(), s.ServerSilence)
	}
	return nil
}

// noticed is how long it may take a handler to hear that the server is silent: by a heartbeat without an answer, or in
// a statement by TCP, which probes in whole seconds by timers that may be an eighth late (Linux's
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

// UserTimeout returns the least silence after which the server may end a session: two thirds of ServerSilence, because
// tcp_user_timeout cuts its keepalives short, too (tcp(7), TCP_USER_TIMEOUT).
func (s Session) UserTimeout() time.Duration { return s.Bound() * 2 / 3 }
