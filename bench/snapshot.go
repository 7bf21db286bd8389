package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A snapshot is an old transaction: it may look at everything as it was when it began, so that vacuum must leave all of
// it in place.
type snapshot struct{ conn *pgx.Conn }

// holdSnapshot opens one, with a transaction id of its own, as one that has written something would have.
func holdSnapshot(ctx context.Context, url string) (*snapshot, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &snapshot{conn}
	for _, sql := range []string{
		"BEGIN ISOLATION LEVEL REPEATABLE READ", "SET LOCAL idle_in_transaction_session_timeout = 0",
		"SELECT pg_current_xact_id()",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return s, nil
}

// end lets go, and fails if the snapshot was not held until now.
func (s *snapshot) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var held bool
	err := s.conn.QueryRow(ctx, `SELECT backend_xmin IS NOT NULL AND backend_xid IS NOT NULL
		FROM pg_stat_activity WHERE pid = pg_backend_pid()`).Scan(&held)
	if err == nil && !held {
		err = errors.New("it holds nothing")
	}
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
	}
	return errors.Join(err, s.conn.Close(ctx))
}
