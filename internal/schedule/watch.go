package schedule

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// What the scout watches beside its walks: the groups that others hold, and those who enqueue.

// watching is what the scout keeps of those groups, and of those who enqueue.
type watching struct {
	*reader
	checked time.Time     // when watched groups were last looked at,
	kept    rhythm        // of looks at groups that sessions hold
	asked   time.Time     // when the scout last asked who is writing to jobs
	askGap  time.Duration // how long not to ask that again, from then on
}

// nextWatch returns how long to leave alone the groups that others hold. Busy lanes do not need them soon, but one of
// them may have lost its worker.
func (w *watching) nextWatch(view View) time.Duration {
	gap := tuning.Look / 2
	switch {
	case view.Hinted:
		return 0
	case view.Watched == 0:
		return tuning.Wait
	case !view.Idle:
		gap *= 2
	}
	return gap - time.Since(w.checked)
}

// checkWatched looks which of the groups that others hold are free: a cheap question about their transactions first,
// and then one about the groups of those that ended. So a worker's death is seen as soon as its transaction has ended,
// and not by the next walk.
func (w *watching) checkWatched(ctx context.Context, conn *pgx.Conn, _ View) error {
	w.checked = time.Now()
	var xids []int64
	var keys, ended []groups.Key
	w.Turns.with(func(b *book) { xids, keys = b.watched.holders(b.poll) })
	died := make(map[int64]bool) // the transactions that ended, and whether their workers died
	if len(xids) > 0 {
		var xid int64
		var aborted bool
		err := query(ctx, conn, "look at other workers", w.Schema.Qualify(statement("ended")), []any{xids},
			[]any{&xid, &aborted}, func() { died[xid] = aborted })
		if err != nil {
			return err
		}
	}
	var orphans map[groups.Key]bool
	w.Turns.with(func(b *book) { ended, orphans = b.watched.by(died) })
	keys = append(keys, ended...)
	released, err := w.released(ctx, conn)
	if err != nil {
		return err
	}
	keys = append(keys, released...)
	if len(keys) == 0 {
		return nil
	}
	done := w.Turns.Recheck(keys)
	err = w.readGroups(ctx, conn, keys, func(c *Candidate) bool {
		c.Orphan = orphans[c.Key]
		return true
	})
	if err != nil {
		return err
	}
	done()
	return nil
}

// released returns the groups that sessions which live on have let go. The end of a session tells of all its groups at
// once, as the end of a transaction does; only its row tells of a group that was let go.
func (w *watching) released(ctx context.Context, conn *pgx.Conn) (released []groups.Key, err error) {
	begin := time.Now()
	if begin.Sub(w.kept.walked) < tuning.Spare*w.kept.cost {
		return nil, nil
	}
	var keys []groups.Key
	var sessions []int64
	w.Turns.with(func(b *book) { keys, sessions = b.watched.kept() })
	if len(keys) == 0 {
		return nil, nil
	}
	defer func() { w.kept = rhythm{time.Now(), time.Since(begin)} }()
	queues, ids := columns(keys)
	var n int
	err = query(ctx, conn, "look at what sessions hold", w.Schema.Qualify(statement("released")),
		[]any{queues, ids, sessions}, []any{&n}, func() { released = append(released, keys[n-1]) })
	return released, err
}

// nextAsk returns how long to wait before asking again who is writing to jobs.
func (w *watching) nextAsk(view View) time.Duration {
	switch {
	case view.Unproven > 0:
		return w.askGap - time.Since(w.asked)
	case view.Worked: // there may be a claim soon that wants it
		return tuning.Rest
	}
	return tuning.Wait
}

// checkWriters asks who may still bring a job with a lower id than those that are finished: see floors. The next
// question is due when as many claims have missed it as a statement reads rows: it is worth as much then. But it does
// not come so soon that asking takes over a 20th of the time.
func (w *watching) checkWriters(ctx context.Context, conn *pgx.Conn, view View) error {
	begin := time.Now()
	w.Turns.with(func(b *book) { b.floors.ask() })
	each := min(begin.Sub(w.asked), tuning.Wait) / time.Duration(max(view.Unproven, 1))
	writing, err := askWriters(ctx, conn, w.Schema)
	if err != nil {
		return err
	}
	w.Turns.with(func(b *book) { b.floors.answered(writing.jobs, writing.prepared) })
	w.asked = time.Now()
	w.askGap = max(min(tuning.Rows*each, tuning.Wait), tuning.Rest, tuning.Spare*w.asked.Sub(begin))
	return nil
}

// The writers are the transactions that askWriters has found.
type writers struct {
	jobs     []string // those that write to the jobs
	prepared bool     // one of these is prepared
	requests []string // those that have requested a walk
}

// askWriters returns the writers.
func askWriters(ctx context.Context, conn *pgx.Conn, name schema.Name) (w writers, err error) {
	var writer string
	var prepared, requests bool
	err = query(ctx, conn, "look at those who enqueue", statement("writers"), []any{name.String()},
		[]any{&writer, &prepared, &requests}, func() {
			if requests {
				w.requests = append(w.requests, writer)
				return
			}
			w.jobs, w.prepared = append(w.jobs, writer), w.prepared || prepared
		})
	return w, err
}
