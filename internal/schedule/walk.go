package schedule

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A search finds groups with jobs: it walks over each queue for itself, and where that takes long it looks instead for
// what is new and what is due (look.go).
type search struct {
	*reader
	walks  []walk        // of each of the Queues
	queue  int           // the one of the Queues whose walk was read last, by its index
	gap    time.Duration // between two walks, or looks
	whole  time.Duration // what the last walks over all queues took
	began  time.Time     // when the first of those walks began
	slowed int           // how many times in a row such walks were slow
	look   look
	hints  []Candidate // memory for the hints of a look, to be used again
}

func newSearch(r *reader) search {
	walks := make([]walk, len(r.Queues))
	for i := range walks {
		walks[i].skip = true // many groups at once at first, so that no lane works one again and again meanwhile
	}
	return search{reader: r, walks: walks, queue: -1, gap: minGap}
}

// walkPause returns how long to wait between walks that take that long.
func (s *search) walkPause(took time.Duration) time.Duration {
	if s.covers() {
		return pace * took
	}
	return tuning.Spare * took
}

// hurry returns how long to wait between walks that take that long, if there is something to be found: busy lanes keep
// half of the time.
func (v View) hurry(took time.Duration) time.Duration {
	if v.Idle {
		return 0
	}
	return took
}

// A walk goes over the groups of a queue, again and again. The walks over all queues begin together when it is time,
// and have their statements in turn: so what they rest is in proportion to what all of them cost, however many queues
// there are. When a queue's part of the line is full its walk is cut: it goes on where it was when that runs low, apart
// from the others, which do not wait for it.
type walk struct {
	midway  bool   // it has begun and not ended
	after   string // the last group seen
	cut     bool   // the queue's part of the line was full at some time since it began
	apart   bool   // it goes on by itself: the line was full, or it may not wait for the others
	skip    bool   // the next batch: skip from group to group, instead of reading job after job
	paced   bool   // slow: looks cover this queue, so the walk pauses between batches
	covered bool   // a whole walk was made since looks began
	needed  bool   // another one is to be made soon, although looks are made
	began   time.Time
	took    time.Duration // what its statements took
	heads   int           // heads that it has seen
	news    int           // Scout.news when it began
	share   *row          // the share whose refill it is, or nil
	until   string        // the group behind which there was no more room for that share, if the refill was cut
	rhythm                // its own while it is apart; those that are not share one
}

// A rhythm is when a walk or a look has read last, and how long that took.
type rhythm struct {
	walked time.Time
	cost   time.Duration
}

// covers reports whether looks find everything in the queue in time, so that its walk need not hurry.
func (w walk) covers() bool { return w.covered && !w.needed }

// together reports whether the common next round must wait for this walk.
func (w walk) together() bool { return w.midway && !w.apart }

// overflowWaits reports whether groups beyond the line wait for their turn, and there is room.
func (p queueRoom) overflowWaits() bool { return !p.roomy && p.low }

// sum adds up what walks have cost: all, or those that are not under way.
func (s *search) sum(all bool) (took time.Duration, heads int) {
	for i := range s.walks {
		if w := &s.walks[i]; all || !w.midway {
			took, heads = took+w.took, heads+w.heads
		}
	}
	return took, heads
}

// midway reports whether a walk has begun and not ended.
func (s *search) midway() bool {
	return slices.ContainsFunc(s.walks, func(w walk) bool { return w.midway })
}

// nextWalk returns how long the next batch of a walk has to wait.
func (s *search) nextWalk(view View) time.Duration {
	_, wait := s.chooseWalk(view)
	return wait
}

// chooseWalk returns the queue whose walk has the next batch, by its index, and how long that has to wait.
func (s *search) chooseWalk(view View) (queue int, next time.Duration) {
	together := slices.ContainsFunc(s.walks, walk.together)
	took, _ := s.sum(false)
	next = time.Duration(math.MaxInt64)
	for i := range s.walks {
		n := (s.queue + 1 + i) % len(s.walks)
		w, p := &s.walks[n], view.rooms[n]
		wait := s.Poll // woken when the line runs low, or called again when those that have begun end
		switch {
		case p.room <= 0, w.midway && w.cut && !p.low:
		case w.midway:
			wait = s.nextBatch(w, p, view)
		case p.overflowWaits():
			wait = 0
		case !together, w.covered && w.needed: // one that hurries waits for no other
			wait = s.nextBegin(w, view, took)
		}
		if wait = max(wait, 0); wait < next {
			queue, next = n, wait
		}
	}
	return queue, next
}

// nextBatch returns how long the next batch of a walk that is under way has to wait.
func (s *search) nextBatch(w *walk, p queueRoom, view View) time.Duration {
	switch {
	case w.paced && !w.needed && p.roomy:
		return pace*w.cost - time.Since(w.walked)
	case s.look.on && p.roomy && view.Idle:
		return w.cost - time.Since(w.walked) // what is due meanwhile is not to wait for it
	case p.started && !view.Idle && view.Ready >= tuning.Rows:
		// There is enough to do: leave the lanes most of the server, once every group has had its first turn.
		return tuning.Few*w.cost - time.Since(w.walked)
	}
	return 0
}

// nextBegin returns how long a walk has to wait before it begins; took is what those that wait took the last time.
// Where looks are made it need not hurry.
func (s *search) nextBegin(w *walk, view View, took time.Duration) time.Duration {
	gap := s.gap
	switch {
	case w.covers():
		gap = max(s.Poll, pace*w.cost)
	case w.needed, s.look.on:
		gap = view.hurry(took)
	case !view.Idle:
		gap = max(gap, s.Poll/2, s.walkPause(took))
	default:
		gap = max(gap, took)
	}
	return gap - time.Since(w.walked)
}

// press asks for what is new at once: by a look where these are made, else by walks that begin now.
func (s *search) press() {
	s.gap, s.look.pressed = 0, s.look.on
	for i := range s.walks {
		s.walks[i].needed = s.walks[i].needed || !s.look.on
	}
}

// beginWalk begins the walk over a queue: by itself if groups beyond the line wait there or others are under way, else
// together with others.
func (s *search) beginWalk(n int, view View) {
	apart := view.rooms[n].overflowWaits() || slices.ContainsFunc(s.walks, walk.together)
	now := time.Now()
	for i, p := range view.rooms {
		w := &s.walks[i]
		if i == n || !apart && !w.midway && p.room > 0 && !p.overflowWaits() {
			*w = walk{
				midway: true, apart: apart, skip: w.skip, paced: w.covers(), covered: w.covered,
				began: now, news: s.news, rhythm: w.rhythm,
			}
		}
	}
}

// walk reads the next batch of heads of the queue that has the next one.
func (s *search) walk(ctx context.Context, conn *pgx.Conn, view View) error {
	n, _ := s.chooseWalk(view)
	return s.walkQueue(ctx, conn, view, n)
}

// walkQueue reads the next batch of heads of a queue.
func (s *search) walkQueue(ctx context.Context, conn *pgx.Conn, view View, n int) error {
	s.queue = n
	w, queue := &s.walks[n], s.Queues[n]
	if !w.midway {
		s.beginWalk(n, view)
	}
	r, more, err := s.readOn(ctx, conn, w, queue, min(view.rooms[n].room, tuning.Rows))
	if err != nil {
		return err
	}
	w.rhythm = r
	for i := range s.walks {
		other := &s.walks[i]
		if w.apart || other.midway && other.apart {
			continue
		}
		other.rhythm = r
	}
	w.took += r.cost
	if !more {
		s.endWalk(w, queue)
	}
	return nil
}

// endWalk ends the walk over a queue.
func (s *search) endWalk(w *walk, queue string) {
	w.midway, w.after, w.covered = false, "", s.look.on
	s.Turns.with(func(b *book) { b.rooms.walked(queue, !w.cut) })
	first := slices.MinFunc(s.walks, func(a, b walk) int { return a.began.Compare(b.began) })
	if began := first.began; !s.midway() && began.After(s.began) { // all have ended; none is without a beginning
		s.began = began
		s.whole, _ = s.sum(true)
		if s.slowed++; s.whole <= s.slow() {
			s.slowed = 0
		}
		keep := 2 * (time.Since(began) + s.walkPause(s.whole))
		s.Turns.with(func(b *book) { b.floors.checked(began, keep) })
	}
	if !slices.ContainsFunc(s.walks, walk.together) {
		s.calm(s.news > w.news)
	}
}

// calm sets the gap to the next walk: it grows for as long as there is no news.
func (s *search) calm(news bool) {
	if news {
		s.gap = minGap
		return
	}
	s.gap = min(max(2*s.gap, minGap), s.Poll)
	if s.gap == s.Poll { // not in step with other processes
		s.gap -= time.Duration(rand.Int64N(int64(s.Poll)/10 + 1))
	}
}
