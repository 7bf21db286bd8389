package groups

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// A Scout finds groups with jobs for all lanes of a process, on a connection of its own.
//
// It walks over the groups of its queues, again soon while that brings news and lanes wait, and then ever less often
// down to once every Poll; it watches the transactions that hold groups elsewhere, because a freed lock tells nobody;
// and it makes the rows of new groups.
type Scout struct {
	Turns  *Turns
	Queues []string
	Schema schema.Name
	// Poll is the longest time between two walks.
	Poll time.Duration

	queue   int    // where the walk is: index into Queues
	after   string // and the last group seen there
	cut     bool   // the line was full at some time during this walk
	gap     time.Duration
	walked  time.Time     // end of the last walk's last batch
	skip    bool          // the next batch: skip from group to group, instead of reading job after job
	began   time.Time     // of the present walk
	took    time.Duration // its statements,
	batch   time.Duration // the last one,
	whole   time.Duration // and all of the last whole walk
	quick   quickWalk
	checked time.Time     // when held groups were last looked at,
	asked   time.Time     // and those who enqueue,
	askGap  time.Duration // and how long not to, from then on
	news    int           // since the walk began
	orphans map[Key]bool  // groups whose worker has just died
	look    chan struct{}
}

const (
	maxRest   = time.Second          // between looks at the Turns, which forget their floors then, however slow walks are
	minGap    = 2 * time.Millisecond // between walks while they bring news
	walkBatch = 512                  // groups per statement, or jobs where groups are short
	adjacent  = 8                    // jobs a group, from which on it is better to skip
)

// NewScout returns a Scout for the queues.
func NewScout(turns *Turns, queues []string, name schema.Name, poll time.Duration) *Scout {
	return &Scout{
		Turns: turns, Queues: queues, Schema: name, Poll: poll,
		gap: minGap, look: make(chan struct{}, 1),
		skip: true, // many groups at once to begin with, that no lane works one again and again meanwhile
	}
}

// Hurry asks for a walk at once: something was enqueued, it is not known where.
func (s *Scout) Hurry() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// Run scouts on conn until ctx ends or the connection fails.
func (s *Scout) Run(ctx context.Context, conn *pgx.Conn) error {
	s.quick.queue, s.quick.gaps, s.quick.dialed = 0, nil, dials.Add(1)
	s.gap, s.walked = 0, time.Time{} // groups that were looked at when a connection broke are nowhere else
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, err := s.step(ctx, conn)
		if err != nil {
			return err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-s.Turns.Woken():
		case <-s.look:
			s.hurry()
		}
	}
}

// hurry makes the next walk due, the quick one if there are any.
func (s *Scout) hurry() {
	s.gap = 0
	if s.quick.walks {
		s.quick.ended = time.Time{}
	} else {
		s.walked = time.Time{}
	}
}

// step does what is due, and returns how long nothing will be.
func (s *Scout) step(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	due := s.Turns.Due()
	view := s.Turns.Look()
	if view.Worked && view.Idle {
		s.gap = min(s.gap, minGap)
	}
	if view.Hinted || view.Held > 0 && time.Since(s.checked) >= view.heldGap() {
		if err := s.checkHeld(ctx, conn); err != nil {
			return 0, err
		}
	}
	if view.Stuck > 0 && s.nextAsk() <= 0 {
		if err := s.checkWriters(ctx, conn); err != nil {
			return 0, err
		}
	}
	next := s.nextWalk(view)
	if next <= 0 {
		if err := s.walk(ctx, conn, min(view.Room, walkBatch)); err != nil {
			return 0, err
		}
		view = s.Turns.Look()
		next = s.nextWalk(view)
		due = s.Turns.Due()
	}
	if s.nextQuick(view) <= 0 {
		if err := s.walkQuickly(ctx, conn, min(view.Room, walkBatch)); err != nil {
			return 0, err
		}
		view = s.Turns.Look()
		due = s.Turns.Due()
	}
	wait := min(max(next, 0), max(s.nextQuick(view), 0), maxRest)
	if due >= 0 {
		wait = min(wait, due)
	}
	switch {
	case view.Stuck > 0:
		wait = min(wait, max(s.nextAsk(), 0))
	case view.Worked: // there may be one soon that is stuck
		wait = min(wait, askGap)
	}
	if view.Held > 0 {
		wait = min(wait, max(view.heldGap()-time.Since(s.checked), 0))
	}
	return wait, nil
}

// rest returns how long to wait between walks that take so long: they take a few percent of the time then. But a lower id that
// commits late, and is announced by nobody, may have to be found by walking. Quick walks do that; where groups are too many for
// them, walks of up to two seconds (a million dead entries under an old snapshot, say) find it within ten, and slower ones take a
// fifth of the time.
func (s *Scout) rest(took time.Duration) time.Duration {
	if s.quick.walks {
		return 20 * took
	}
	return min(20*took, max(8*time.Second-took, 4*took))
}

// nextWalk returns how long the next walk has to wait. Walks that are slow are made less often: see rest.
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
	case !view.Idle:
		gap = max(gap, s.Poll/2, s.rest(s.took))
	case s.quick.walks:
		gap = max(gap, s.rest(s.took))
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
		s.cut, s.news, s.took, s.began = false, 0, 0, time.Now()
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
	s.queue, s.whole = 0, s.took
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

// read offers the candidates of a query to the Turns, after making the rows that are missing. It returns how many heads
// there were, and the last one's group.
func (s *Scout) read(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (n int, last string, err error) {
	s.Turns.Looking()
	var found []Candidate
	var newQueues, newIDs []string
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return 0, "", err
	}
	var c Candidate
	var dueUS int64
	var paused, missing bool
	_, err = pgx.ForEachRow(rows, []any{&c.Queue, &c.GroupID, &c.ID, &dueUS, &c.Holder, &paused, &missing}, func() error {
		n, last = n+1, c.GroupID
		if paused {
			return nil
		}
		c.DueIn = time.Duration(dueUS) * time.Microsecond
		c.Orphan = s.orphans[c.Key]
		found = append(found, c)
		if missing {
			newQueues, newIDs = append(newQueues, c.Queue), append(newIDs, c.GroupID)
		}
		return nil
	})
	if err != nil {
		return 0, "", err
	}
	if len(newIDs) > 0 {
		if _, err := conn.Exec(ctx, s.Schema.Qualify(ensureSQL), newQueues, newIDs); err != nil {
			return 0, "", err
		}
	}
	// Every process walks the same way; in the same order they would meet at every group.
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	s.news += s.Turns.Offer(found)
	return n, last, nil
}
