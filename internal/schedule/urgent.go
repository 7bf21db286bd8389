package schedule

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Urgency is what the scout keeps of jobs with a priority. While groups are in line it looks for those that may go
// before them, in an index of such jobs alone, however many others there are: behind a million groups one starts within
// 21 ms, or 0.26 s if nobody tells of it (bench/RESULTS.md, priority). It reads some groups of each queue and priority,
// goes on behind them with the next look, and so comes round.
type urgency struct {
	*reader
	stops map[level]stop // of levels that have more
	some  bool           // the last look has found any
	more  bool           // the last look has left some that there is room for
	asked atomic.Bool    // somebody has enqueued some
	rhythm
}

// A level is a priority of a queue.
type level struct {
	queue    string
	priority int
}

// A stop is where a look has stopped: at jobs that may run from this time on, and this group.
type stop struct {
	due   pgtype.Timestamptz
	group string
}

// rareGap is between looks while there are no jobs with a priority: four times in what a user notices.
const rareGap = tuning.Wait / 4

// Urge asks for a look for jobs with a priority, of some queue.
func (u *urgency) Urge() {
	u.asked.Store(true)
	u.Turns.wake.ring()
}

// nextUrgent returns how long the next such look has to wait. If no group is in line, whatever is found goes first.
func (u *urgency) nextUrgent(view View) time.Duration {
	gap := max(rareGap, tuning.Spare*u.cost)
	switch {
	case view.Ready == 0:
		return rareGap
	case u.more:
		gap = tuning.Many * u.cost // it comes round, and leaves time to others
	case u.some, u.asked.Load():
		gap = max(minGap, tuning.Spare*u.cost)
	}
	return gap - time.Since(u.walked)
}

// lookUrgent looks for groups whose heads have a priority.
func (u *urgency) lookUrgent(ctx context.Context, conn *pgx.Conn, _ View) error {
	begin := time.Now()
	u.asked.Store(false)
	var full map[level]bool
	u.Turns.with(func(b *book) { full = b.rooms.fullLevels() })
	hints, err := u.readUrgent(ctx, conn, full)
	if err != nil {
		return err
	}
	keep := func(c *Candidate) bool { return c.Priority > 0 }
	if err := u.readGroups(ctx, conn, u.Turns.outranked(hints), keep); err != nil {
		return err
	}
	u.rhythm = rhythm{walked: time.Now(), cost: time.Since(begin)}
	return nil
}

// readUrgent reads the next groups of all levels but those that are full, those of the highest first.
func (u *urgency) readUrgent(ctx context.Context, conn *pgx.Conn, full map[level]bool) (hints []Candidate, err error) {
	u.some, u.more = len(u.stops) > 0, false // there may be some from the beginning to there
	begin := maps.Clone(u.stops)
	for l := range full { // behind all jobs
		begin[l] = stop{due: pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}}
	}
	var queues, ids []string
	var priorities []int16
	var times []pgtype.Timestamptz
	for l, from := range begin {
		queues, priorities = append(queues, l.queue), append(priorities, int16(l.priority))
		times, ids = append(times, from.due), append(ids, from.group)
		if !full[l] {
			delete(u.stops, l)
		}
	}
	read := make(map[level]int)
	var l level
	var at stop
	err = query(ctx, conn, "look for jobs with a priority", u.Schema.Qualify(statement("urgent")), []any{
		u.Queues, queues, priorities, times, ids, maxUrgent,
	}, []any{&l.queue, &l.priority, &at.due, &at.group}, func() {
		hints = append(hints, Candidate{Key: groups.Key{Queue: l.queue, GroupID: at.group}, Priority: l.priority})
		if read[l]++; read[l] == maxUrgent {
			u.stops[l], u.more = at, true
		}
	})
	u.some = u.some || len(hints) > 0
	return hints, err
}
