package lease

import (
	"errors"
	"fmt"
	"time"
)

// A Session bounds how long silence may last between a worker and the server: Worker.Heartbeat, Silence and
// ServerSilence of package fifo, whose doc.go says what follows from them. Zero fields mean the defaults.
//
// The worker gives up before the server does, so a handler's context is cancelled before anybody else can be given its
// group.
type Session struct {
	Heartbeat     time.Duration
	Silence       time.Duration
	ServerSilence time.Duration
}

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

// Validate returns an error if the bounds, defaults filled in, make no sense.
func (s Session) Validate() error {
	s = s.WithDefaults()
	switch {
	case s.Heartbeat < 0 || s.Silence < 0 || s.ServerSilence < 0:
		return errors.New("negative Heartbeat, Silence or ServerSilence")
	case s.Heartbeat < time.Millisecond:
		return fmt.Errorf("the Heartbeat %v is below a millisecond", s.Heartbeat)
	case s.noticed() >= s.userTimeout():
		return fmt.Errorf("with Silence %v and Heartbeat %v a handler hears of a lost connection after %v, "+
			"which must be less than two thirds of ServerSilence (%v)",
			s.Silence, s.Heartbeat, s.noticed(), s.ServerSilence)
	}
	return nil
}

// noticed is how long it may take a handler to hear that the server is silent: by a heartbeat without an answer, or in
// a statement by TCP, which probes in whole seconds by timers that may be an eighth late (Linux's timer
// wheel).
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

// userTimeout returns the least silence after which the server may end a session: two thirds of ServerSilence, because
// tcp_user_timeout cuts its keepalives short, too (tcp(7), TCP_USER_TIMEOUT).
func (s Session) userTimeout() time.Duration { return s.ServerSilence * 2 / 3 }
