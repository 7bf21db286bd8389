package fifo

import (
	"context"
	"strings"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// WaitEmpty returns nil when the queue or the group has no jobs, running, delayed and paused ones included, or an error
// when ctx ends. It looks at an entry of an index: every 10 milliseconds at first, then less and less often, down to
// once a second. In a transaction at REPEATABLE READ it never sees the end of jobs that it has seen once.
func (s Scope) WaitEmpty(ctx context.Context) error {
	const verb = "wait for the end of"
	low, high := s.group, s.group
	if s.level == ofQueue {
		high = strings.Repeat("\U0010FFFF", groups.MaxIDBytes/4)
	}
	for gap := tuning.Rest; ; gap = min(gap+gap/4, tuning.Wait) { // it waits at most a quarter longer than needed
		some := false
		err := s.read(ctx, verb, statement("any"), into(&some), s.queue, low, high)
		if err != nil || !some {
			return err
		}
		if err := pause.For(ctx, gap); err != nil {
			return s.failed(verb, err)
		}
	}
}
