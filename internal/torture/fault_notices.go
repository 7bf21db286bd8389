package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// fullFor is how long the queue of notices is full.
const fullFor = 1500 * time.Millisecond

// shortenNotices has the server keep as few notices as it can: to fill 8 GB would take too long. Before version 17 it
// knows of no such setting.
func (r *run) shortenNotices(ctx context.Context) error {
	if r.srv.Halt == nil {
		return errors.New("the server is not ours to configure")
	}
	if err := r.admin(ctx, "ALTER SYSTEM SET max_notify_queue_pages = 64"); err != nil {
		return err
	}
	if err := r.srv.Halt(); err != nil {
		return err
	}
	return r.srv.Resume(ctx)
}

// injectNotices fills the server's queue of notices, as any session of the cluster does that listens in a transaction
// that it leaves open. No enqueue, and no caller's COMMIT, may fail by that.
func injectNotices(ctx context.Context, r *run, _ *rand.Rand) error {
	conn, err := pgx.ConnectConfig(ctx, r.pool.Config().ConnConfig)
	if err != nil {
		return errNotNow
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "LISTEN torture"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil { // it takes no notice until the end of that
		return err
	}
	var full *pgconn.PgError
	for n := 0; !errors.As(err, &full); n++ {
		_, err = r.pool.Exec(ctx, "SELECT pg_notify('torture', $1)", fmt.Sprint(n, strings.Repeat(".", 7000)))
		if err != nil && !errors.As(err, &full) || n > 1000 {
			return errors.Join(errNotNow, err)
		}
	}
	if full.Code != noticesFull {
		return err
	}
	r.mark(faultNotices, "", 0, "")
	_ = pause.For(ctx, fullFor)
	r.mark("noticed", "", 0, "")
	return nil
}

// noticesFull is the SQLSTATE of a notice for which there is no room.
const noticesFull = "54000"

// checkNotices: I10, no enqueue fails because of its notice: for want of room, or since it cannot be prepared.
func (c *checker) checkNotices() {
	for i := range c.enqueues {
		e := &c.enqueues[i]
		c.did("I10", 1)
		if strings.Contains(e.why, noticesFull) || strings.Contains(e.why, "NOTIFY") {
			c.broken("I10", e.invoke, e.group, nil, "the enqueue of message %d (%s) failed for its notice: %s", e.n,
				e.how, e.why)
		}
	}
}
