package fifo

import (
	"context"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

const (
	waitFirst = 10 * time.Millisecond
	waitMost  = time.Second
)

// WaitEmpty returns nil when the queue or the group has no jobs, running, delayed and paused ones included, or an error
// when ctx ends. It looks at an entry of an index, first every 10 milliseconds, and less often up to once a second the
// longer it takes. A transaction at REPEATABLE READ sees no end of what it has seen.
func (s Scope) WaitEmpty(ctx context.Context) error {
	const verb = "wait for the end of"
	low, high := s.group, s.group
	if s.level == ofQueue {
		high = strings.Repeat("\U0010FFFF", groups.MaxIDBytes/4)
	}
	for gap := waitFirst; ; gap = min(gap+gap/4, waitMost) {
		some := false
		err := s.read(ctx, verb, anySQL, func(r row) error { return r.Scan(&some) }, s.queue, low, high)
		if err != nil || !some {
			return err
		}
		timer := time.NewTimer(gap)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s.failed(verb, context.Cause(ctx))
		}
	}
}
