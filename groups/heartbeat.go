package groups

import (
	"context"
	"errors"
	"time"
)

// ErrLost is the cause with which a handler's context is cancelled when its lane has lost the group: the connection
// broke, or the server was silent for longer than Session.Silence. Somebody else may run the job by now. What the
// handler writes through the job's transaction is lost with it; what it does elsewhere it should stop doing.
var ErrLost = errors.New("groups: the connection that holds the group is lost")

// epoch is what Lane.since counts from: by the monotonic clock, for the wall clock may jump.
var epoch = time.Now()

// Running returns how long the lane's handler has been running, or 0.
func (l *Lane) Running() time.Duration {
	if since := l.since.Load(); since != 0 {
		return time.Since(epoch) - time.Duration(since-1)
	}
	return 0
}

// Beat tells the server that the worker lives, unless a statement is doing that just now, and waits for its answer, at
// most as long as Session.Silence. It returns an error if the connection is lost; the lane is closed then.
//
// It may be called from any goroutine. While no handler runs it does nothing.
func (l *Lane) Beat(ctx context.Context) error {
	if !l.wire.tryBeat() {
		return nil // the socket's own timeouts watch a statement
	}
	defer l.wire.endBeat()
	// A server that answers too late may have given the group away meanwhile: late is lost. Not by a deadline of ctx, at which
	// pgx asks the server to cancel, and waits as long once more.
	lose := func() {
		l.lost.Store(true)
		l.Kill()
	}
	defer time.AfterFunc(l.silent, lose).Stop()
	defer context.AfterFunc(ctx, lose)()
	// The empty query works in an aborted transaction too.
	if _, err := l.pg().Exec(context.WithoutCancel(ctx), "-- heartbeat").ReadAll(); err != nil {
		lose()
		return errors.Join(ErrLost, context.Cause(ctx), err)
	}
	return nil
}
