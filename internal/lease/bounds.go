package lease

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Bounds say how long silence may last between a worker and the server: Worker.Heartbeat, Silence and
// ServerSilence of package fifo, whose doc.go says what follows from them. Zero fields mean the defaults.
//
// The worker gives up before the server does, so a handler's context is cancelled before anybody else can be given its
// group.
type Bounds struct {
	Heartbeat     time.Duration
	Silence       time.Duration
	ServerSilence time.Duration
}

// WithDefaults returns the Bounds with their zero fields replaced.
func (b Bounds) WithDefaults() Bounds {
	b.Heartbeat = cmp.Or(b.Heartbeat, time.Second)
	b.Silence = cmp.Or(b.Silence, 10*time.Second)
	b.ServerSilence = cmp.Or(b.ServerSilence, 30*time.Second)
	return b
}

// Validate returns an error if the bounds, defaults filled in, make no sense.
func (b Bounds) Validate() error {
	b = b.WithDefaults()
	switch {
	case b.Heartbeat < 0 || b.Silence < 0 || b.ServerSilence < 0:
		return errors.New("negative Heartbeat, Silence or ServerSilence")
	case b.Heartbeat < time.Millisecond:
		return fmt.Errorf("the Heartbeat %v is below a millisecond", b.Heartbeat)
	case b.Silence < tuning.Slow: // no server could be reached in time
		return fmt.Errorf("the Silence %v is below %v", b.Silence, tuning.Slow)
	case max(b.Heartbeat, b.Silence, b.ServerSilence).Milliseconds() > math.MaxInt32:
		return fmt.Errorf("the Heartbeat %v, Silence %v and ServerSilence %v must have %d milliseconds at most, as "+
			"settings of PostgreSQL do", b.Heartbeat, b.Silence, b.ServerSilence, math.MaxInt32)
	case b.noticed() >= b.userTimeout():
		return fmt.Errorf("with Silence %v and Heartbeat %v a handler hears of a lost connection after %v, "+
			"which must be less than two thirds of ServerSilence (%v)",
			b.Silence, b.Heartbeat, b.noticed(), b.ServerSilence)
	}
	return nil
}

// noticed is how long it may take a handler to hear that the server is silent: by a heartbeat without an answer, or in
// a statement by TCP, which probes in whole seconds, with timers that may be an eighth late (Linux's timer wheel).
func (b Bounds) noticed() time.Duration {
	probed, interval := wholeSeconds(b.Silence/2), wholeSeconds(b.Silence/10)
	for probed += interval; probed < b.Silence; {
		probed += interval
	}
	return max(b.Silence+b.Heartbeat, probed+probed/8)
}

// millis returns a time as a setting of PostgreSQL. 0 would mean for ever.
func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

func wholeSeconds(d time.Duration) time.Duration {
	return max((d + time.Second - 1).Truncate(time.Second), time.Second)
}

// userTimeout returns the least silence after which the server may end a session: two thirds of ServerSilence, because
// tcp_user_timeout cuts its keepalives short, too (tcp(7), TCP_USER_TIMEOUT).
func (b Bounds) userTimeout() time.Duration { return b.ServerSilence * 2 / 3 }
