package fifo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// An announcer sends a client's notices, by statements of its own on the client's pool.
//
// Neither an enqueue nor a caller's transaction sends them. A commit that notifies holds a lock of the whole cluster
// until it is flushed (PostgreSQL's async.c), fails if the cluster's queue of notices is full, and cannot be prepared.
// So the announcer asks which of the callers' transactions have ended, and tells workers what the committed ones did.
// It asks about a young transaction every millisecond, and less often the longer it stays open.
//
// The first notice is sent at once. What is to be said during the gap after it goes into the next statement. The gap
// grows with the time that a statement takes: if many clients wait in line for that lock, each of them asks for it less
// often.
type announcer struct {
	client *Client
	wake   chan struct{} // there is something new
	stop   chan struct{} // closed by close
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	took   time.Duration // how long the last question took; only run uses it

	mu      sync.Mutex
	running bool
	closed  bool
	pending hints             // committed
	untold  hints             // Cancels that could not be told: no poll finds them
	failed  int               // how many times in a row they could not
	again   time.Time         // when they are tried again
	open    map[int64]*openTx // transactions that are not known to have ended, by their ids
}

// An openTx is a transaction of a caller's.
type openTx struct {
	hints hints
	conn  *pgx.Conn // nil if it is one of database/sql
	since time.Time
	next  time.Time // when to ask about it again
}

// openFor is how long a transaction is asked about: much longer than any should be open. After that, workers find what
// it has done at their next poll. No poll finds a Cancel, so a transaction with a Cancel is asked about until it ends.
const openFor = 60 * tuning.Long

func (a *announcer) init(c *Client) {
	a.client = c
	a.wake, a.stop = make(chan struct{}, 1), make(chan struct{})
	a.pending, a.untold, a.open = make(hints), make(hints), make(map[int64]*openTx)
	a.ctx, a.cancel = context.WithCancel(context.Background())
}

// close asks about all open transactions and says what is pending, once more, and ends the announcer.
func (a *announcer) close() {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.stop)
	}
	a.mu.Unlock()
	late := time.AfterFunc(tuning.Wait, a.cancel)
	a.done.Wait()
	late.Stop()
	a.cancel()
}

// say announces what add adds, which is committed.
func (a *announcer) say(add func(hints)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.start() {
		add(a.pending)
	}
}

// sayLater announces what add adds, once the transaction has committed. If too many are open, this one is dropped,
// unless it has a Cancel: polling finds what it did.
func (a *announcer) sayLater(xid int64, conn *pgx.Conn, add func(hints)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.start() {
		return
	}
	tx := a.open[xid]
	if tx == nil {
		now := time.Now()
		tx = &openTx{hints: make(hints), conn: conn, since: now, next: now.Add(tuning.Gap)}
	}
	add(tx.hints)
	if len(a.open) < tuning.Known || tx.hints.canceled() {
		a.open[xid] = tx
	}
}

// on returns the transactions of a connection that are to be announced, if they were noted at or after since. An older
// one may be prepared: then it is still open, and a commit on the connection says nothing about it.
func (a *announcer) on(conn *pgx.Conn, since time.Time) (xids []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for xid, tx := range a.open {
		if tx.conn == conn && !tx.since.Before(since) {
			xids = append(xids, xid)
		}
	}
	return xids
}

// ended announces what was done in transactions that have committed, and drops what was in those that have not.
func (a *announcer) ended(committed, aborted []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start()
	for _, xid := range committed {
		if tx := a.open[xid]; tx != nil {
			a.pending.addAll(tx.hints)
			delete(a.open, xid)
		}
	}
	for _, xid := range aborted {
		delete(a.open, xid)
	}
}

// start wakes the announcer, or returns false if it is closed or switched off. The caller holds the lock.
func (a *announcer) start() bool {
	if a.client.cfg.PollOnly || a.closed {
		return false
	}
	if !a.running {
		a.running = true
		a.done.Go(a.run)
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return true
}

// run ends when there is nothing to do, and begins again with the next update.
func (a *announcer) run() {
	for {
		d, more := a.idle()
		switch {
		case !more:
			return
		case !a.wait(d, a.wake), !a.wait(a.turn(false), nil):
			for a.turn(true); a.owes() && a.ctx.Err() == nil; a.turn(true) {
				_ = pause.For(a.ctx, tuning.Rest)
			}
			return
		}
	}
}

// owes reports whether there are Cancels that could not be told.
func (a *announcer) owes() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.untold) > 0
}

// turn asks about the transactions that are due, or all, and says what is pending. It returns how long to rest.
func (a *announcer) turn(all bool) (gap time.Duration) {
	ctx, cancel := context.WithTimeout(a.ctx, tuning.Grace)
	defer cancel()
	begin := time.Now()
	var err error
	if xids := a.due(begin, all); len(xids) > 0 {
		err = a.ask(ctx, xids)
		a.took = time.Since(begin)
	}
	if said := a.next(begin, all); len(said) > 0 {
		_, e := a.client.pool.Exec(ctx, "SELECT pg_notify($1, n) FROM pg_catalog.unnest($2::text[]) AS n",
			a.client.schema.String(), said.notices())
		a.tried(said, e)
		err = errors.Join(err, e)
		gap = min(max(tuning.Gap, 4*time.Since(begin)), tuning.Look)
	}
	if err != nil {
		if a.ctx.Err() == nil {
			a.client.cfg.Logger.Debug("pgfifo: notify failed; workers will poll", "error", err)
		}
		return tuning.Look
	}
	return gap
}

// next takes what is to be said. Cancels that could not be told are in it when they are due, or if all is to be said.
func (a *announcer) next(now time.Time, all bool) (said hints) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if all || !a.again.After(now) {
		a.pending.addAll(a.untold)
		clear(a.untold)
	}
	said, a.pending = a.pending, make(hints)
	return said
}

// tried notes whether the Cancels in what was said could be told. If not, they are tried again, less and less often.
func (a *announcer) tried(said hints, err error) {
	if !said.canceled() {
		return
	}
	a.mu.Lock()
	closed := a.closed
	if a.failed++; err == nil {
		a.failed = 0
	} else {
		a.untold.addCancels(said)
		a.again = time.Now().Add(rest.Nth(a.failed, tuning.Wait, tuning.Long))
	}
	a.mu.Unlock()
	if err != nil && (!closed || a.ctx.Err() != nil) { // else it is tried again in a moment
		a.client.cfg.Logger.Warn("pgfifo: workers not told of a Cancel", "again", !closed, "error", err)
	}
}

// due returns the transactions to ask about.
func (a *announcer) due(now time.Time, all bool) (xids []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for xid, tx := range a.open {
		age := now.Sub(tx.since)
		switch {
		case age > openFor && !tx.hints.canceled():
			delete(a.open, xid)
		case all || !tx.next.After(now):
			tx.next = now.Add(min(max(tuning.Gap, 4*a.took, age/16), tuning.Wait))
			xids = append(xids, xid)
		}
	}
	return xids
}

func (a *announcer) ask(ctx context.Context, xids []int64) error {
	var committed, aborted []int64
	err := each(ctx, pgxSession{a.client.pool}, statement("ended"), func(r row) error {
		var xid int64
		var status string
		err := r.Scan(&xid, &status)
		switch status {
		case "committed":
			committed = append(committed, xid)
		case "aborted":
			aborted = append(aborted, xid)
		}
		return err
	}, xids)
	if len(committed)+len(aborted) > 0 {
		a.ended(committed, aborted)
	}
	return err
}

// idle returns how long there is nothing to do unless something new comes, or false if nothing is left to do.
func (a *announcer) idle() (d time.Duration, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) > 0 {
		return 0, true
	}
	first := time.Now().Add(openFor)
	if len(a.untold) > 0 && a.again.Before(first) {
		first = a.again
	}
	for _, tx := range a.open {
		if tx.next.Before(first) {
			first = tx.next
		}
	}
	a.running = len(a.open)+len(a.untold) > 0
	return time.Until(first), a.running
}

// wait returns when the time is over or something new comes, or false if the announcer is to end.
func (a *announcer) wait(d time.Duration, wake <-chan struct{}) bool {
	select {
	case <-time.After(d):
	case <-wake:
	case <-a.stop:
		return false
	}
	return true
}
