package pgtest

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// A Session is one connection that a test steps by hand.
type Session struct {
	*DB
	*pgx.Conn
	steps sync.WaitGroup
}

// Session opens one. It is closed when the test ends.
func (db *DB) Session() *Session {
	db.Helper()
	s := &Session{DB: db, Conn: Conn(db.T, db.URL)}
	db.Cleanup(s.steps.Wait)
	return s
}

// Do runs statements.
func (s *Session) Do(sql string, args ...any) {
	s.Helper()
	_, err := s.Conn.Exec(s.Context(), sql, args...)
	require.NoError(s, err)
}

// Waits reports whether the statement has to wait for another session's lock. If so it is not executed, and its
// transaction has failed.
func (s *Session) Waits(sql string, args ...any) bool {
	s.Helper()
	s.Do("SET lock_timeout = '100ms'")
	_, err := s.Conn.Exec(s.Context(), sql, args...)
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		return true
	}
	require.NoError(s, err)
	return false
}

// Go runs f beside the test, which waits for its end.
func (s *Session) Go(f func()) { s.steps.Go(f) }

// Start begins a statement that will not end by itself, and returns when it is under way.
func (s *Session) Start(sql string, args ...any) (done <-chan error) {
	s.Helper()
	ch := make(chan error, 1)
	s.steps.Go(func() {
		_, err := s.Conn.Exec(context.WithoutCancel(s.Context()), sql, args...)
		ch <- err
	})
	s.Until(func() bool { return s.Active(s.PgConn().PID()) })
	return ch
}
