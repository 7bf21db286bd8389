package lease

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrLost is the cause with which a handler's context is cancelled when its lane has lost the group: the connection
// broke, or the server was silent for longer than Bounds.Silence, or about to take the worker for silent. Somebody else
// may run the job by now. What the handler writes through the job's transaction is lost with it. It should stop what it
// does elsewhere.
var ErrLost = errors.New("lease: the lease of the group is lost")

var (
	errHungUp = errors.New("lease: the server ended the session")
	errUnread = errors.New("lease: results of the job's transaction are left unread, so that no heartbeat can pass")
)

// Running returns how long the lane's handler has been running, or 0.
func (l *link) Running() time.Duration { return l.wire.running() }

// Beat tells the server that the worker lives, if it may think otherwise, and waits for its answer, at most as long as
// Bounds.Silence. It returns an error if the connection is lost; the lane is closed then. It does the same if the
// server may end the session soon, because results that nobody reads keep heartbeats from being sent.
//
// It may be called from any goroutine. While no handler runs it does nothing.
func (l *link) Beat(ctx context.Context) error {
	lending := l.wire.lending()
	if lending == 0 {
		return nil
	}
	now, err := l.beat(ctx, lending)
	idle := time.Since(now.alive)
	if err != nil || !now.unsure || idle < l.bounds.Heartbeat {
		return err
	}
	// Perhaps the end of the answer is behind what is unread, and the server waits for the worker: it must be asked.
	ctx, cancel := context.WithTimeout(ctx, min(l.bounds.Heartbeat, l.bounds.Silence-idle))
	defer cancel()
	begun := time.Now()
	active, writing, err := l.activity(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return l.lose(lending, errHungUp)
	}
	// While the server waits for its results to be read, tcp_user_timeout runs, unless some were read.
	if err == nil && active && (!writing || !l.stream.tcp || now.moved) {
		l.stream.affirm(begun)
	}
	return nil // the next heartbeat gives up if nobody could say
}

func (l *link) beat(ctx context.Context, lending int) (standing, error) {
	l.wire.beats.Lock()
	defer l.wire.beats.Unlock()
	if l.wire.lending() != lending { // the handler has returned
		return standing{}, nil
	}
	if l.HungUp() {
		return standing{}, l.cut(errHungUp)
	}
	if ctx.Err() != nil {
		return standing{}, l.cut(context.Cause(ctx))
	}
	// A server that answers too late may have given the group away meanwhile: late is lost.
	defer time.AfterFunc(l.bounds.Silence, func() { _ = l.cut(nil) }).Stop()
	defer context.AfterFunc(ctx, func() { _ = l.cut(nil) })()
	now, err := l.stream.beat()
	if err != nil || l.lost.Load() {
		return now, l.cut(errors.Join(context.Cause(ctx), err))
	}
	if time.Since(now.alive) >= l.bounds.Silence {
		return now, l.cut(errUnread)
	}
	return now, nil
}

// activitySQL, run on another session, tells what a session does: whether a statement runs, and whether that waits for
// the worker to read its results. No row: it has ended.
const activitySQL = `SELECT coalesce(state = 'active', false), coalesce(wait_event = 'ClientWrite', false)
	FROM pg_catalog.pg_stat_get_activity($1)`

// activity asks for that on the Control pool.
func (l *link) activity(ctx context.Context) (active, writing bool, err error) {
	if l.control == nil || l.stream.pid == 0 {
		return false, false, ErrNoControl
	}
	err = l.control.QueryRow(ctx, activitySQL, l.stream.pid).Scan(&active, &writing)
	return active, writing, err
}

// lose gives the connection up, if the same handler still has it.
func (l *link) lose(lending int, why error) error {
	l.wire.beats.Lock()
	defer l.wire.beats.Unlock()
	if l.wire.lending() != lending {
		return nil
	}
	return l.cut(why)
}
