package fifo

import (
	"context"
	"fmt"
)

// The leases of queues, as the database has them.
const (
	byTransaction = "transaction"
	bySession     = "session"
)

// leases tells which of the queues have Settings.SessionLease.
func (w *Worker) leases(ctx context.Context, on pgxQuerier, queues []string) (session map[string]bool, err error) {
	session = make(map[string]bool)
	err = each(ctx, pgxSession{on}, w.Client.schema.Qualify(statement("leases")), func(r row) error {
		var name string
		err := r.Scan(&name)
		session[name] = true
		return err
	}, queues)
	if err != nil {
		return nil, fmt.Errorf("fifo: look which lease queues have: %w", err)
	}
	return session, nil
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
