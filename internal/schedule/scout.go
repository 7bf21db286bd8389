package schedule

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A Scout finds groups with jobs for all lanes of a process, on a connection of its own.
//
// It walks over the groups of its queues, again soon while that brings news and lanes wait, and then ever less often
// down to once every Poll; where walks take long, it looks instead for what is new and what is due (look.go). It
// watches the transactions that hold groups elsewhere, because a freed lock tells nobody; and it makes the rows of new
// groups. It walks over each queue for itself (walk.go): one with more ready groups than the line takes of a queue
// keeps no other waiting.
type Scout struct {
	*reader
	search
	watching
	urgency

	refilled rhythm // of refills
	duties   []duty // in their order
	looked   atomic.Pointer[time.Time]
	hurry    bell
	anew     bool // nothing was asked on this connection yet
}

// minGap is the least time between walks while they bring news: a walk costs more than a notice.
const minGap = 2 * tuning.Gap

// NewScout returns a Scout for the queues.
func NewScout(turns *Turns, queues []string, name schema.Name, poll time.Duration) *Scout {
	r := &reader{
		Turns: turns, Queues: queues, Schema: name, Poll: poll, refused: make(map[groups.Key]trouble),
	}
	s := &Scout{reader: r, search: newSearch(r), hurry: newBell()}
	s.watching.reader, s.urgency.reader = r, r
	s.stops = make(map[level]stop)
	s.duties = []duty{
		{s.nextWatch, s.checkWatched, false},
		{s.nextAsk, s.checkWriters, false},
		{s.nextLook, s.lookOn, true},
		{s.nextWalk, s.walk, true},
		{s.nextRefill, s.refill, true},
		{s.nextUrgent, s.lookUrgent, false},
	}
	turns.setScout(queues, s.Bound(), poll)
	return s
}

// Hurry asks for a look, or a walk, at once: something was enqueued, it is not known where.
func (s *Scout) Hurry() { s.hurry.ring() }

// Looked returns when the scout last looked for work without an error, or zero. While the line is full, it asks whether
// the server is there instead. Any goroutine may call it.
func (s *Scout) Looked() time.Time {
	if at := s.looked.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// nextCall returns how long the server need not be asked anything.
func (s *Scout) nextCall() time.Duration { return max(s.Poll, tuning.Wait) - time.Since(s.Looked()) }

// Run scouts on conn until ctx ends or the connection fails.
func (s *Scout) Run(ctx context.Context, conn *pgx.Conn) error {
	s.setLook(look{})
	s.anew = true
	for {
		wait, err := s.step(ctx, conn)
		if err != nil {
			s.press() // groups that were looked at just now are nowhere else
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		case <-s.Turns.wake:
		case <-s.hurry:
			s.press()
		}
	}
}

// view returns a View of the Turns, and notes for the walks what it tells of their queues:
//
//   - A claim has met a pause. Another walk is needed: one that was requested meanwhile, because the pause is over, may
//     have passed over the group while the lane had it.
//   - There is no room. The walk is cut, and so the others need not wait for it.
func (s *Scout) view() View {
	view := s.Turns.View()
	for i, p := range view.rooms {
		w := &s.walks[i]
		w.needed = w.needed || p.paused
		if p.room <= 0 { // looks do not read its new jobs either
			w.apart, w.cut = true, true
		}
	}
	return view
}

// A duty is what the scout does again and again.
type duty struct {
	wait  func(View) time.Duration // how long it is until the duty is to be done
	do    func(context.Context, *pgx.Conn, View) error
	finds bool // it looks for work: Looked counts it
}

// step does what is due, and returns for how long nothing will be due. If nothing has been asked for long, it asks
// whether the server is there.
func (s *Scout) step(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	view, looked := s.view(), false
	if view.Worked && view.Idle {
		s.gap = min(s.gap, minGap)
	}
	for _, d := range s.duties {
		s.choose()
		if d.wait(view) > 0 {
			continue
		}
		if err := d.do(ctx, conn, view); err != nil {
			return 0, err
		}
		worked := view.Worked
		view, looked = s.view(), looked || d.finds
		view.Worked = view.Worked || worked
	}
	if !looked && (s.anew || s.nextCall() <= 0) {
		if err := conn.Ping(ctx); err != nil {
			return 0, fmt.Errorf("schedule: look whether the server is there: %w", err)
		}
		looked = true
	}
	if looked {
		now := time.Now()
		s.looked.Store(&now)
		s.anew = false
	}
	wait := min(max(s.nextCall(), 0), tuning.Wait)
	for _, d := range s.duties {
		wait = min(wait, max(d.wait(view), 0))
	}
	return wait, nil
}

// Walk reads the heads of all groups once, as far as the Turns have room.
func (s *Scout) Walk(ctx context.Context, conn *pgx.Conn) error {
	for n := range s.walks {
		for more := true; more; more = s.walks[n].midway {
			view := s.Turns.View()
			if view.rooms[n].room <= 0 {
				if err := s.lookUrgent(ctx, conn, view); err != nil {
					return err
				}
				break
			}
			if err := s.walkQueue(ctx, conn, view, n); err != nil {
				return err
			}
		}
	}
	return nil
}
