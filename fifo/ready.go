package fifo

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Ready returns nil if the worker can find jobs and take them, for a probe such as Kubernetes' readinessProbe. Else it
// returns an error that wraps ErrNotReady, and the last error of what is missing. The worker is ready while all of this
// holds:
//
//   - Run is under way and was not told to stop.
//   - At least one lane has a connection, as far as is known without asking, and does not wait for an answer to a
//     statement of the worker's own for longer than Silence, behind a lock say. A lane that has none takes no jobs, and
//     leaves them to the others; Stats.Lanes counts those that have one. The end of a session shows at once, where the
//     system tells of it (as Linux does). With SessionLease all lanes have one session, and lose it together.
//   - The worker has looked for work with success, no longer ago than twice PollInterval and 2 seconds: 4 seconds by
//     default. So a server that is silent shows, too, and one that answers and refuses the look. Stats.LookedAt is when
//     it did. A worker that has no room for more work asks the server whether it is there instead.
//   - It has done so since it last lost the connection that looks. A look from before an outage does not count.
//
// A server that lets the worker look but refuses its claims may not make it unready: the log and Stats.Troubles tell.
//
// That all lanes are busy, or that jobs fail, does not make it unready, nor does the loss of the connection that
// listens: polling finds what it misses. Nor is a worker to be killed because it is not ready. It dials again, for as
// long as it takes, and is ready again when the server is back.
//
// Ready asks the server nothing, so it may be called as often as one likes, from any goroutine. The error can name the
// server and the role: it is for the log.
func (w *Worker) Ready() error {
	crews := w.lanes.crews()
	if len(crews) == 0 {
		return fmt.Errorf("%w: Run is not under way", ErrNotReady)
	}
	for _, c := range crews {
		if err := c.ready(); err != nil {
			return err
		}
	}
	return nil
}

func (c *crew) ready() error {
	lanes, look := c.lanesReady(), c.lookReady()
	switch {
	case c.stopping() != nil:
		return fmt.Errorf("%w: it was told to stop", ErrNotReady)
	case lanes != nil && look != nil:
		return fmt.Errorf("%w: %w; %w", ErrNotReady, lanes, look)
	case lanes != nil || look != nil:
		return fmt.Errorf("%w: %w", ErrNotReady, cmp.Or(lanes, look))
	}
	return nil
}

// connected returns how many lanes have a connection.
func (c *crew) connected() (n int) {
	for _, s := range c.seats {
		if s.connected() {
			n++
		}
	}
	return n
}

// unconnected returns how many have none.
func (c *crew) unconnected() int { return len(c.seats) - c.connected() }

func (c *crew) lanesReady() error {
	if c.connected() > 0 {
		return nil
	}
	return because("no lane has a connection that answers", c.laneSetback.Load(), time.Time{})
}

func (c *crew) lookReady() error {
	at, bound := c.scout.Looked(), c.scout.Bound()
	age := time.Since(at).Round(time.Millisecond)
	missing := fmt.Sprintf("it last looked for work %v ago", age)
	switch {
	case at.IsZero():
		missing = "it has not looked for work yet"
	case c.scoutLost(at):
		missing += ", and has lost its connection since"
	case age > bound:
		missing += fmt.Sprintf(", longer than %v", bound)
	default:
		return nil
	}
	return because(missing, c.scoutSetback.Load(), at)
}

// scoutLost reports whether the connection that looks for work was lost after the given look.
func (c *crew) scoutLost(look time.Time) bool {
	if c.beside.scoutHungUp() {
		return true
	}
	lost := c.beside.scoutLost.Load() // read after that question: whoever loses a connection first notes it here
	return lost != nil && !look.After(*lost)
}

// because returns what is missing, with its last error if that came after the given time.
func because(missing string, last *setback, after time.Time) error {
	if last == nil || !last.at.After(after) {
		return errors.New(missing)
	}
	return fmt.Errorf("%s: %w", missing, last.err)
}
