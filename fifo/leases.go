package fifo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// leases tells which of the queues have Settings.SessionLease.
func (w *Worker) leases(ctx context.Context, on asked, queues []string) (session map[string]bool, err error) {
	rows, err := on.Query(ctx, w.Client.schema.Qualify(leasesSQL), queues)
	var names []string
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("fifo: look which lease queues have: %w", err)
	}
	session = make(map[string]bool, len(names))
	for _, name := range names {
		session[name] = true
	}
	return session, nil
}

// An asked is a connection, or a pool of them.
type asked interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// tellLeases warns of queues that have another lease now than their crews.
func (w *Worker) tellLeases(ctx context.Context) error {
	for _, c := range w.lanes.crews() {
		session, err := w.leases(ctx, w.Client.pool, c.set.names)
		if err != nil {
			return err
		}
		for _, name := range c.set.names {
			if session[name] != c.set.bySession {
				c.log.Warn("pgfifo: the queue's SessionLease was changed; this worker goes on with the lease "+
					"that it has until it is started again", "queue", name, "has", c.set.bySession)
			}
		}
	}
	return nil
}
