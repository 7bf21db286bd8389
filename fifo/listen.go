package fifo

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A listener hears what producers and operators announce, on a connection of its own: a session that listens inside a
// long transaction would hold up the notification queue of the whole cluster. Polling finds what it misses.
type listener struct{ *crew }

// run listens until ctx ends or the connection fails.
func (l *listener) run(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+l.worker.Client.schema.Ident()); err != nil {
		return err
	}
	for queue := range l.set.queues { // what was said while nobody listened
		l.turns.Forget(queue)
	}
	l.scout.Hurry()
	for {
		n, err := l.notification(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			l.hear(ctx, conn, n.Payload)
		}
	}
}

// notification waits for the next notice, or returns nil: there was none for long, and the server is still there.
func (l *listener) notification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	wait, stop := context.WithTimeout(ctx, tuning.Long)
	defer stop()
	n, err := conn.WaitForNotification(wait)
	if err == nil || wait.Err() == nil || ctx.Err() != nil {
		return n, err
	}
	answer, stop := context.WithTimeout(ctx, l.set.bounds.Silence)
	defer stop()
	return nil, conn.Ping(answer)
}

// hear acts on a notice. Any role may send one, so it is checked like any input; the worst it can do is to make the
// worker look, or to cancel what runs in a group that is paused.
func (l *listener) hear(ctx context.Context, conn *pgx.Conn, payload string) {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		l.scout.Hurry()
		return
	}
	if _, ok := l.set.queues[n.Queue]; !ok {
		return
	}
	if n.Cancel {
		key := groups.Key{Queue: n.Queue}
		if len(n.Groups) > 0 {
			key.GroupID = n.Groups[0].GroupID
		}
		l.cancel(ctx, conn, key, n.Paused)
		return
	}
	if len(n.Groups) == 0 {
		if n.Back {
			l.turns.Forget(n.Queue)
		}
		if n.Urgent {
			l.scout.Urge()
		}
		l.scout.Hurry()
		return
	}
	for _, g := range n.Groups {
		key := groups.Key{Queue: n.Queue, GroupID: g.GroupID}
		switch {
		case key.Validate() != nil:
		case n.Back:
			l.turns.PutBack(key, g.ID)
		case n.Urgent:
			l.turns.Urge(key, g.ID)
		default:
			l.turns.Announce(key, g.ID)
		}
	}
}

// cancel ends the contexts of the handlers that run in a group, or in a queue if key has no group id: if that is
// paused, or if the group was taken from the worker's session. Any role may send a notice, so the worker obeys only one
// that the tables bear out. It asks on the connection that listens: handlers may have all of the client's pool.
func (l *listener) cancel(ctx context.Context, conn *pgx.Conn, key groups.Key, at int64) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	r := ruling{key: key, asked: time.Now()}
	if !slices.ContainsFunc(l.seats, func(s *seat) bool { return s.concerned(key) }) {
		return
	}
	sql := l.worker.Client.schema.Qualify(statement("canceled"))
	if err := conn.QueryRow(ctx, sql, key.Queue, key.GroupID, at).Scan(&r.paused, &r.token); err != nil {
		l.log.Warn("pgfifo: not canceled", "queue", key.Queue, "group", key.GroupID, "error", err)
		return
	}
	for _, s := range l.seats {
		s.hear(r)
	}
}
