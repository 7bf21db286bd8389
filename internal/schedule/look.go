package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A look finds what a walk over all groups would find, where that takes long: jobs that are new, by their ids, and jobs
// that will soon be due, by their times. It costs as much as there are of these, however many groups there are: an idle
// worker beside a million delayed groups takes 1.1% of a core, its sessions included (bench/RESULTS.md, delayed).
//
// A job may be committed long after its id was drawn, or its time set. So the scout notes who is writing to the jobs
// (writers.sql). For each writer it keeps how far the jobs were known at the last look that did not see that writer
// yet. All that the writer inserts lies above that. A look goes back to that of the writers who have ended since the
// last one.
//
// Some jobs become ready without a trace in ids or times, and a walk is requested for them: those behind a pause that
// is undone, and those behind a delayed head that is taken out while the next job is locked (take_out.sql, purge.sql,
// move.sql in fifo/sql). Whoever does that draws from a sequence before he commits, and has it locked until he has
// ended. So the next look sees that more was drawn, or a later one that he has ended, and another walk begins after
// either.
//
// That is enough for pauses, however short. Nothing is kept of the groups that a look or a walk has found paused: their
// pause was committed by then. Whoever undoes it can only draw after that. If he has drawn before the last look, he has
// not ended by then, or the group would not have been found paused; so that look has seen him.
type look struct {
	on      bool // walks take long, so looks are made
	pressed bool // something was enqueued somewhere since the last look began
	known   progress
	writers map[string]progress // those who wrote at the last look; what they insert lies above this
	request int64               // the last request for a walk that was drawn
	open    []string            // who has requested one, and not ended
	pass    *pass               // what is left of the present look, or nil
	owed    time.Time           // the earliest due time that a look skipped because memory was full; zero: none
	took    time.Duration       // what the steps of the look took
	news    int                 // candidates of the look that were news
	rhythm                      // of its steps
}

// Progress is how far the jobs are known. The zero progress: it is not known how far.
type progress struct {
	id int64     // the last that was drawn
	at time.Time // the server's
}

// A pass is the part of a look that is yet to be read.
type pass struct {
	id    int64         // new jobs are yet to be read behind this id
	last  int64         // new jobs are to be read up to this id
	queue int           // due jobs are yet to be read of this one of the Queues and those behind it, by its index
	due   cursor        // due jobs of that queue are yet to be read behind this one
	from  time.Time     // the earliest due time to be read, in each queue
	until time.Time     // the latest due time to be read, in each queue
	ahead time.Duration // by how much our clock is ahead of the server's
}

// A cursor is the place of a delayed job.
type cursor struct {
	at time.Time
	id int64
}

const (
	// pace says how long a walk rests after a statement where looks are made: this many times as long as the statement
	// took. Looks find all but what was changed by hand.
	pace = tuning.Many * tuning.Spare
	// slack is for clocks: due jobs are looked for that much further back.
	slack = tuning.Wait
	// newBatch is how many ids a statement reads: most may be gone, or of other queues.
	newBatch = 2 * tuning.Few * tuning.Rows
	// maxNew is how many ids a look reads. If there are more, all groups are walked over: many groups have several.
	maxNew = 4 * tuning.Known
)

// slow returns from when on walks are too long to be made once every Poll.
func (s *search) slow() time.Duration { return max(s.Poll/100, minGap) }

// choose begins or ends to make looks. A walk that is under way begins anew: looks find what is committed behind it
// from now on, but not what was before the first look.
func (s *search) choose() {
	took, heads := s.sum(true)
	switch {
	// A walk over a few batches may be slow by chance.
	case !s.look.on && (s.slowed > 1 || s.whole > tuning.Slow || heads > tuning.Few*tuning.Rows && took > s.slow()):
		s.setLook(look{on: true})
		for i := range s.walks {
			w := &s.walks[i]
			w.midway, w.after, w.began = false, "", time.Time{}
		}
	case s.whole < s.slow()/2 && !slices.ContainsFunc(s.walks, func(w walk) bool { return !w.covered }):
		s.setLook(look{})
	}
}

func (s *search) setLook(l look) {
	for i := range s.walks {
		w := &s.walks[i]
		w.covered, w.needed, w.paced = false, w.needed || s.look.pressed, false
	}
	s.look = l
}

// covers reports whether looks find everything in time, so that no walk need hurry.
func (s *search) covers() bool {
	return !slices.ContainsFunc(s.walks, func(w walk) bool { return !w.covers() })
}

// nextLook returns how long the next look, or its next step, has to wait.
func (s *search) nextLook(view View) time.Duration {
	l := &s.look
	gap := max(s.gap, tuning.Few*l.took, min(tuning.Spare*l.took, s.Poll))
	switch {
	case !l.on:
		return tuning.Wait
	case l.writers == nil:
		return 0
	case view.Room <= 0:
		return tuning.Wait
	case l.pass != nil && view.Idle:
		return 0
	case l.pass != nil:
		gap = tuning.Few * l.cost
	case l.pressed:
		gap = view.hurry(l.took)
	case !l.owed.IsZero() && !view.Crowded:
		gap = min(gap, tuning.Spare*l.cost)
	case !view.Idle:
		gap = max(gap, s.Poll/2)
	}
	return gap - time.Since(l.walked)
}

// lookOn takes the next step of a look.
func (s *search) lookOn(ctx context.Context, conn *pgx.Conn, view View) error {
	l := &s.look
	begin := time.Now()
	if l.pass == nil {
		l.took, l.news, l.pressed = 0, 0, false
		if err := s.begin(ctx, conn); err != nil {
			return err
		}
	}
	news := s.news
	var err error
	switch p := l.pass; {
	case p.queue < len(s.Queues) && view.Crowded: // the next look reads them
		p.queue, l.owed = len(s.Queues), p.from
	case p.queue < len(s.Queues):
		err = s.readDue(ctx, conn, p, view)
	case p.id < p.last:
		err = s.readNew(ctx, conn, p, view)
	}
	if err != nil {
		return err
	}
	l.news += s.news - news
	l.rhythm = rhythm{walked: time.Now(), cost: time.Since(begin)}
	l.took += l.cost
	if l.pass.queue == len(s.Queues) && l.pass.id >= l.pass.last {
		l.pass = nil
		s.calm(l.news > 0)
	}
	return nil
}

// begin makes a pass: it sees from where on the jobs are not known, and how far they are to be known after the pass.
func (s *search) begin(ctx context.Context, conn *pgx.Conn) error {
	l := &s.look
	var now progress
	var request int64
	err := conn.QueryRow(ctx, s.Schema.Qualify(statement("position"))).Scan(&now.at, &now.id, &request)
	if err != nil {
		return fmt.Errorf("schedule: look at the time: %w", err)
	}
	w, err := askWriters(ctx, conn, s.Schema) // after the last id is read, and before any jobs are
	if err != nil {
		return err
	}
	requested := l.requested(request, w.requests)
	from, next := l.unknownFrom(now, w.jobs, w.prepared)
	if !slices.ContainsFunc(s.walks, func(w walk) bool { return !w.needed }) || requested ||
		from.at.IsZero() || now.id-from.id > maxNew || now.id < l.known.id {
		from.id = now.id
		for i := range s.walks {
			s.walks[i].needed = true
		}
	}
	l.known, l.writers = now, next
	if from.at.After(now.at) || from.at.IsZero() {
		from.at = now.at
	}
	p := &pass{
		id: from.id, last: now.id, from: from.at.Add(-slack), until: now.at.Add(s.Bound()),
		ahead: time.Since(now.at),
	}
	if !l.owed.IsZero() && l.owed.Before(p.from) {
		p.from = l.owed
	}
	p.due.at, l.owed = p.from, time.Time{}
	l.pass = p
	return nil
}

// requested reports whether a walk was requested since the last look, or a request that it saw has been committed. last
// is the last that was drawn, and open are those who have requested one and not ended.
func (l *look) requested(last int64, open []string) bool {
	ended := slices.ContainsFunc(l.open, func(w string) bool { return !slices.Contains(open, w) })
	changed := l.writers != nil && last != l.request
	l.request, l.open = last, open
	return ended || changed
}

// unknownFrom returns from where on there may be jobs that the last look could not see. next says the same for each of
// those who write now, for the look that does not see them any more. now is how far jobs are drawn.
func (l *look) unknownFrom(
	now progress, writers []string, prepared bool,
) (from progress, next map[string]progress) {
	first := l.writers == nil
	from, next = l.known, make(map[string]progress, len(writers))
	if first {
		from = now
	}
	for w, m := range l.writers {
		if !slices.Contains(writers, w) {
			from = from.lower(m)
		}
	}
	for _, w := range writers {
		m, known := l.writers[w]
		switch {
		case first: // nobody knows since when: m is zero
		case !known && prepared: // one of those that have ended may have become this
			m = from
		case !known:
			m = l.known
		}
		next[w] = m
	}
	return from, next
}

func (m progress) lower(than progress) progress {
	m.id = min(m.id, than.id)
	if than.at.Before(m.at) {
		m.at = than.at
	}
	return m
}

// readDue reads some jobs that are due soon, or were a moment ago, of the queues that have room.
func (s *search) readDue(ctx context.Context, conn *pgx.Conn, p *pass, view View) error {
	if view.rooms[p.queue].room <= 0 { // the next one is read from its beginning
		p.due = cursor{at: p.from}
	}
	s.hints = s.hints[:0]
	s.Turns.with(func(b *book) { b.floors.looks++ })
	var h Candidate
	due := p.due
	err := query(ctx, conn, "look for jobs that are due", s.Schema.Qualify(statement("due")),
		[]any{s.roomy(view, p.queue), p.due.at, p.due.id, p.from, p.until, tuning.Rows},
		[]any{&h.Queue, &h.GroupID, &h.ID, &due.at}, func() {
			due.id, h.DueIn = h.ID, time.Until(due.at.Add(p.ahead))
			s.hints = append(s.hints, h)
		})
	if err != nil {
		return err
	}
	if len(s.hints) < tuning.Rows {
		p.queue = len(s.Queues)
	} else {
		p.queue, p.due = slices.Index(s.Queues, h.Queue), due
	}
	return s.readGroups(ctx, conn, s.Turns.unknown(s.hints), nil)
}

// readNew reads a stretch of ids, of the queues that have room.
func (s *search) readNew(ctx context.Context, conn *pgx.Conn, p *pass, view View) error {
	to := min(p.id+newBatch, p.last)
	s.hints = s.hints[:0]
	s.Turns.with(func(b *book) { b.floors.looks++ })
	var h Candidate
	err := query(ctx, conn, "look for new jobs", s.Schema.Qualify(statement("new")),
		[]any{s.roomy(view, 0), p.id, to, p.until}, []any{&h.Queue, &h.GroupID, &h.ID},
		func() { s.hints = append(s.hints, h) })
	if err != nil {
		return err
	}
	p.id = to
	return s.readGroups(ctx, conn, s.Turns.unknown(s.hints), nil)
}

// roomy returns those of the Queues that have room, from one of them on, by its index.
func (s *search) roomy(view View, from int) (queues []string) {
	for i, q := range s.Queues[from:] {
		if view.rooms[from+i].room > 0 {
			queues = append(queues, q)
		}
	}
	return queues
}
