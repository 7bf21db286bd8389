package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
	Turns  *Turns
	Queues []string
	Schema schema.Name
	// Poll is the longest time between two walks, or two looks where walks take longer than a hundredth of it.
	Poll time.Duration
	// Trouble is told of a group whose row the server refuses to make ready for a claim.
	Trouble func(key groups.Key, err error)

	duties  []duty        // in their order
	walks   []walk        // of each of the Queues
	queue   int           // the one of the Queues whose walk was read last, by its index
	gap     time.Duration // between two walks, or looks
	whole   time.Duration // what the last walks over all queues took
	began   time.Time     // when the first of those walks began
	slowed  int           // how many times one after the other such walks were slow
	refills rhythm
	look    look
	urgency urgency
	hints   []Candidate   // memory for the hints of a look, to be used again
	checked time.Time     // when watched groups were last looked at,
	kept    rhythm        // of looks at groups that sessions hold
	asked   time.Time     // when was last asked who is writing to jobs
	askGap  time.Duration // how long not to ask that again, from then on
	news    int           // candidates that were news, so far
	refused map[groups.Key]refusal
	looked  atomic.Pointer[time.Time]
	hurry   bell
}

// minGap is the least time between walks while they bring news: a walk costs more than a notice.
const minGap = 2 * tuning.Gap

// NewScout returns a Scout for the queues.
func NewScout(turns *Turns, queues []string, name schema.Name, poll time.Duration) *Scout {
	walks := make([]walk, len(queues))
	for i := range walks {
		walks[i].skip = true // many groups at once to begin with, that no lane works one again and again meanwhile
	}
	s := &Scout{
		Turns: turns, Queues: queues, Schema: name, Poll: poll, walks: walks, queue: -1,
		gap: minGap, hurry: newBell(), urgency: urgency{stops: make(map[level]stop)},
	}
	s.duties = []duty{
		{s.nextWatch, s.checkWatched, false},
		{s.nextAsk, s.checkWriters, false},
		{s.nextLook, s.lookOn, true},
		{s.nextWalk, s.walk, true},
		{s.nextRefill, s.refill, true},
		{s.nextUrgent, s.lookUrgent, false},
	}
	turns.soon, turns.poll = s.Bound(), poll
	turns.scout(queues)
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

// Bound returns how long ago Looked is at most while Run is under way and the server answers: twice Poll and 2 seconds.
// A look finds the jobs that become due within that time, so each is found before it is due.
func (s *Scout) Bound() time.Duration { return 2*s.Poll + 2*tuning.Wait }

// nextCall returns how long the server need not be asked anything.
func (s *Scout) nextCall() time.Duration { return max(s.Poll, tuning.Wait) - time.Since(s.Looked()) }

// Run scouts on conn until ctx ends or the connection fails.
func (s *Scout) Run(ctx context.Context, conn *pgx.Conn) error {
	s.setLook(look{})
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

// step does what is due, and returns how long nothing will be. If nothing has been asked for long, it asks whether the
// server is there.
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
	if !looked && s.nextCall() <= 0 {
		if err := conn.Ping(ctx); err != nil {
			return 0, fmt.Errorf("schedule: look whether the server is there: %w", err)
		}
		looked = true
	}
	if looked {
		now := time.Now()
		s.looked.Store(&now)
	}
	wait := min(max(s.nextCall(), 0), tuning.Wait)
	for _, d := range s.duties {
		wait = min(wait, max(d.wait(view), 0))
	}
	return wait, nil
}

// read offers the candidates of a query, the walk's if it is one, to the Turns, after making the rows that are missing:
// all of them, or those that keep wants, which may say more of one. It returns how many heads there were, and the last
// one's group.
func (s *Scout) read(
	ctx context.Context, conn *pgx.Conn, w *walk, keep func(*Candidate) bool, sql string, args ...any,
) (n int, last string, err error) {
	begin := time.Now()
	s.Turns.LookBegins()
	var found []Candidate
	err = heads(ctx, conn, s.Schema.Qualify(sql), args, func(c Candidate) {
		n, last = n+1, c.GroupID
		c.DueIn = max(c.DueIn, 0)
		if keep == nil || keep(&c) {
			found = append(found, c)
		}
	})
	if err != nil {
		return 0, "", err
	}
	if found, err = s.makeReady(ctx, conn, s.Turns.admit(found, w)); err != nil {
		return 0, "", err
	}
	s.offer(found, time.Since(begin))
	return n, last, nil
}

// offer offers candidates to the Turns; took is how long it took to read them and to make them ready.
func (s *Scout) offer(found []Candidate, took time.Duration) {
	late := took - minGap // an answer that takes longer says too late when a job is due
	for i := range found {
		if late > 0 && found[i].DueIn > 0 {
			found[i].DueIn = max(found[i].DueIn-late, time.Nanosecond)
		}
	}
	// Every process walks the same way; in the same order they would meet at every group.
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	s.news += s.Turns.Offer(found)
}

// heads runs a statement that ends with heads.sql, and calls each for every head in its answer. One that has been due
// for a while has a DueIn below 0.
func heads(ctx context.Context, db querier, sql string, args []any, each func(Candidate)) error {
	var c Candidate
	var dueUS int64
	var paused *int
	var session *int64
	return query(ctx, db, "look at heads", sql, args, []any{
		&c.Queue, &c.GroupID, &c.ID, &dueUS, &c.Holder, &paused, &session, &c.Priority,
	}, func() {
		c.DueIn = time.Duration(dueUS) * time.Microsecond
		c.missing, c.dead = session == nil, session != nil && *session != 0 && c.Holder == 0
		c.Paused, c.Slot, c.GroupLimit = paused != nil && *paused < 0, paused != nil && *paused >= 0, 0
		if c.Slot {
			c.GroupLimit = *paused
		}
		each(c)
	})
}

// readGroups reads the heads of named groups.
func (s *Scout) readGroups(
	ctx context.Context, conn *pgx.Conn, keys []groups.Key, keep func(*Candidate) bool,
) error {
	for some := range slices.Chunk(keys, tuning.Rows) {
		queues, ids := columns(some)
		if _, _, err := s.read(ctx, conn, nil, keep, groupsSQL, queues, ids); err != nil {
			return err
		}
	}
	return nil
}
