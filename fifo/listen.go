package fifo

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// listen hears what producers announce, on a connection of its own: a session that listens inside a long transaction
// would hold up the notification queue of the whole cluster. What it misses, polling finds.
func (c *crew) listen(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+c.worker.Client.schema.Ident()); err != nil {
		return err
	}
	for queue := range c.set.queues { // what was said while nobody listened
		c.turns.Forget(queue)
	}
	c.scout.Hurry()
	for {
		n, err := c.notification(ctx, conn)
		if err != nil {
			return err
		}
		if n != nil {
			c.hear(ctx, conn, n.Payload)
		}
	}
}

// notification waits for the next notice, or returns nil: there was none for long, and the server is still there.
func (c *crew) notification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	wait, stop := context.WithTimeout(ctx, tuning.Long)
	defer stop()
	n, err := conn.WaitForNotification(wait)
	if err == nil || wait.Err() == nil || ctx.Err() != nil {
		return n, err
	}
	answer, stop := context.WithTimeout(ctx, c.set.bounds.Silence)
	defer stop()
	return nil, conn.Ping(answer)
}

// hear acts on a notice. Any role may send one, so it is checked like any input; the worst it can do is to make the
// worker look, or to cancel what runs in a group that is paused.
func (c *crew) hear(ctx context.Context, conn *pgx.Conn, payload string) {
	var n notice
	if err := json.Unmarshal([]byte(payload), &n); err != nil {
		c.scout.Hurry()
		return
	}
	if _, ok := c.set.queues[n.Queue]; !ok {
		return
	}
	if n.Cancel {
		key := groups.Key{Queue: n.Queue}
		if len(n.Groups) > 0 {
			key.GroupID = n.Groups[0].GroupID
		}
		c.cancel(ctx, conn, key)
		return
	}
	if len(n.Groups) == 0 {
		if n.Back {
			c.turns.Forget(n.Queue)
		}
		if n.Urgent {
			c.scout.Urge()
		}
		c.scout.Hurry()
		return
	}
	for _, g := range n.Groups {
		key := groups.Key{Queue: n.Queue, GroupID: g.GroupID}
		switch {
		case key.Validate() != nil:
		case n.Back:
			c.turns.PutBack(key, g.ID)
		case n.Urgent:
			c.turns.Urge(key, g.ID)
		default:
			c.turns.Announce(key, g.ID)
		}
	}
}
