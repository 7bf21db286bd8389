package lease

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A session is stranded if the server owes it an answer that will not come, although both sockets are in order: a proxy
// between them has lost its other side, say, or its server. A lock on a table, and a standby that a COMMIT waits for,
// keep an answer away as well. So another session is asked what the server does for this one. If track_activities
// is off, or the role of that session may not see it, the lane goes on waiting.

var errStranded = errors.New("lease: the server owes the session an answer, and works on none")

// idleSQL tells, on another session, whether a session is known to wait for its client. No row: it has ended.
const idleSQL = "SELECT coalesce(state LIKE 'idle%', false) FROM pg_catalog.pg_stat_get_activity($1)"

// unanswered returns for how long the server has owed an answer, or 0.
func (s *stream) unanswered() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed == 0 || s.asked.IsZero() {
		return 0
	}
	return time.Since(s.asked)
}

// stranded reports whether the server has owed an answer for longer than silence, and its session was found idle, or
// gone, this time and the time before.
func (s *stream) stranded(ctx context.Context, control *pgxpool.Pool, silence time.Duration) bool {
	if s.pid == 0 || s.unanswered() < silence {
		return false
	}
	s.mu.Lock()
	asked := s.asked
	s.mu.Unlock()
	idle := false
	err := control.QueryRow(ctx, idleSQL, s.pid).Scan(&idle)
	idle = idle || errors.Is(err, pgx.ErrNoRows)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !idle || s.owed == 0 || !s.asked.Equal(asked) {
		s.idle = time.Time{}
		return false
	}
	again := s.idle.Equal(asked)
	s.idle = asked
	return again
}
