package schedule

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A Candidate is a group's head as discovery saw it.
type Candidate struct {
	groups.Key
	ID         int64
	DueIn      time.Duration
	Holder     int64 // the transaction that runs it; below 0: the session's number, negative; or 0
	Paused     bool  // not to be claimed
	Slot       bool  // its queue has a limit
	GroupLimit int   // how many jobs of the group may run at once; 0: one, as in queues without such a limit
	Orphan     bool  // its worker has just died: it had its turn, and goes first
	Priority   int

	missing bool // it has no row
	dead    bool // the session that has it is dead
	share   string
}

// A reader reads the heads of groups, and offers them to the Turns.
type reader struct {
	Turns  *Turns
	Queues []string
	Schema schema.Name
	// Poll is the longest time between two walks, or two looks where walks take longer than a hundredth of it.
	Poll time.Duration

	// Trouble is told of a group whose row the server refuses to make ready for a claim.
	Trouble func(key groups.Key, err error)

	refused map[groups.Key]trouble // groups of such rows
	news    int                    // candidates that were news, so far
}

// Bound returns how long ago Looked is at most while Run is under way and the server answers: twice Poll and 2 seconds.
// A look finds the jobs that become due within that time, so each is found before it is due.
func (r *reader) Bound() time.Duration { return 2*r.Poll + 2*tuning.Wait }

// read makes the missing rows for the candidates of a query, and offers them to the Turns: all of them, or those that
// keep wants, which may also change them. w is the walk that the query is for, or nil. read returns how many heads
// there were, and the last one's group.
func (r *reader) read(
	ctx context.Context, conn *pgx.Conn, w *walk, keep func(*Candidate) bool, sql string, args ...any,
) (n int, last string, err error) {
	begin := time.Now()
	r.Turns.with(func(b *book) { b.floors.looks++ })
	var found []Candidate
	err = heads(ctx, conn, r.Schema.Qualify(sql), args, func(c Candidate) {
		n, last = n+1, c.GroupID
		c.DueIn = max(c.DueIn, 0)
		if keep == nil || keep(&c) {
			found = append(found, c)
		}
	})
	if err != nil {
		return 0, "", err
	}
	if found, err = r.makeReady(ctx, conn, r.Turns.admit(found, w)); err != nil {
		return 0, "", err
	}
	r.offer(found, time.Since(begin))
	return n, last, nil
}

// offer offers candidates to the Turns; took is how long it took to read them and to make them ready.
func (r *reader) offer(found []Candidate, took time.Duration) {
	late := took - minGap // an answer that takes longer says too late when a job is due
	for i := range found {
		if late > 0 && found[i].DueIn > 0 {
			found[i].DueIn = max(found[i].DueIn-late, time.Nanosecond)
		}
	}
	// Every process walks the same way; in the same order they would meet at every group.
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	r.news += r.Turns.Offer(found)
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
func (r *reader) readGroups(
	ctx context.Context, conn *pgx.Conn, keys []groups.Key, keep func(*Candidate) bool,
) error {
	for some := range slices.Chunk(keys, tuning.Rows) {
		queues, ids := columns(some)
		if _, _, err := r.read(ctx, conn, nil, keep, groupsSQL, queues, ids); err != nil {
			return err
		}
	}
	return nil
}

// readOn reads the next batch of heads of a walk over a queue, and reports whether there may be more behind it.
func (r *reader) readOn(
	ctx context.Context, conn *pgx.Conn, w *walk, queue string, limit int,
) (took rhythm, more bool, err error) {
	begin := time.Now()
	sql := candidatesAdjacentSQL
	if w.skip {
		sql = candidatesSQL
	}
	n, last, err := r.read(ctx, conn, w, nil, sql, queue, w.after, limit)
	if err != nil {
		return rhythm{}, false, err
	}
	w.heads += n
	more = n == limit
	if w.skip {
		w.skip = false
	} else if more = n > 0; more {
		w.skip = n < limit/tuning.Many // where groups have many jobs it is better to skip
	}
	if more {
		w.after = last
	}
	return rhythm{walked: time.Now(), cost: time.Since(begin)}, more, nil
}
