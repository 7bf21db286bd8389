package groups

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// rest returns how long to wait between walks that take so long.
func (s *Scout) rest(took time.Duration) time.Duration {
	if s.covers() {
		return pace * took
	}
	return 20 * took
}

// hurry returns how long to wait between walks that take so long, if there is something to be found: busy lanes keep
// half of the time.
func (v View) hurry(took time.Duration) time.Duration {
	if v.Idle {
		return 0
	}
	return took
}

// nextWalk returns how long the next walk has to wait. Where looks are made it need not hurry.
func (s *Scout) nextWalk(view View) time.Duration {
	if view.Room <= 0 {
		s.cut = true
		s.Turns.Walked(false)
		return s.Poll
	}
	if s.midway() {
		if s.cut && view.Room < s.Turns.limit/2 {
			return s.Poll // woken when the line runs low
		}
		if s.look.paced && !s.look.again && view.Roomy {
			return pace*s.batch - time.Since(s.walked)
		}
		if s.look.on && view.Roomy && view.Idle {
			return s.batch - time.Since(s.walked) // what is due meanwhile is not to wait for it
		}
		if view.Started && !view.Idle && s.Turns.limit-view.Room >= walkBatch {
			// There is enough to do: leave the lanes most of the server, once every group has had its first turn.
			return 3*s.batch - time.Since(s.walked)
		}
		return 0
	}
	if !view.Roomy && view.Room >= s.Turns.limit/2 {
		return 0 // groups beyond the line wait for their turn
	}
	gap := s.gap
	switch {
	case s.covers():
		gap = max(s.Poll, pace*s.batch)
	case s.hurried, s.look.on:
		gap = view.hurry(s.took)
	case !view.Idle:
		gap = max(gap, s.Poll/2, s.rest(s.took))
	default:
		gap = max(gap, s.took)
	}
	return gap - time.Since(s.walked)
}

// midway reports whether a walk has begun and not ended.
func (s *Scout) midway() bool { return s.queue > 0 || s.after != "" }

// walk reads the next batch of heads, and goes back to the first queue behind the last.
func (s *Scout) walk(ctx context.Context, conn *pgx.Conn, limit int) error {
	if !s.midway() {
		s.cut, s.news, s.heads, s.took, s.began, s.hurried = false, 0, 0, 0, time.Now(), s.hurried && s.look.covered
		s.look.paced, s.look.again = s.covers(), false
	}
	begin := time.Now()
	sql := candidatesAdjacentSQL
	if s.skip {
		sql = candidatesSQL
	}
	n, last, err := s.read(ctx, conn, s.Schema.Qualify(sql), s.Queues[s.queue], s.after, limit)
	if err != nil {
		return fmt.Errorf("groups: look for candidates: %w", err)
	}
	s.walked = time.Now()
	s.batch = s.walked.Sub(begin)
	s.took += s.batch
	s.heads += n
	more := n == limit
	if s.skip {
		s.skip = false
	} else if more = n > 0; more {
		s.skip = n < limit/adjacent
	}
	if more {
		s.after = last
		return nil
	}
	s.after = ""
	if s.queue++; s.queue < len(s.Queues) {
		return nil
	}
	s.queue, s.whole, s.look.covered = 0, s.took, s.look.on
	if s.slowed++; s.whole <= s.slow() {
		s.slowed = 0
	}
	s.Turns.Walked(!s.cut)
	s.Turns.Checked(s.began, 2*(time.Since(s.began)+s.rest(s.whole)))
	s.calm(s.news > 0)
	return nil
}

// calm sets the gap to the next walk: the longer, the longer there have been no news.
func (s *Scout) calm(news bool) {
	if news {
		s.gap = minGap
		return
	}
	s.gap = min(max(2*s.gap, minGap), s.Poll)
	if s.gap == s.Poll { // not in step with other processes
		s.gap -= time.Duration(rand.Int64N(int64(s.Poll)/10 + 1))
	}
}

// Walk reads the heads of all groups once, as far as the Turns have room.
func (s *Scout) Walk(ctx context.Context, conn *pgx.Conn) error {
	for {
		view := s.Turns.Look()
		if view.Room <= 0 {
			return nil
		}
		if err := s.walk(ctx, conn, min(view.Room, walkBatch)); err != nil || !s.midway() {
			return err
		}
	}
}
