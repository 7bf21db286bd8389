package lease

import (
	"context"
	"errors"
	"sync"
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

// Unanswered returns for how long the server has owed the lane an answer, or 0. Any goroutine may call it.
func (l *link) Unanswered() time.Duration { return l.stream.unanswered() }

// CutStranded gives the connection up if the lane is stranded, and returns an error then. It is to be called again and
// again: what it finds once may be an answer that is on its way. Any goroutine may call it, while no handler runs: a
// handler may leave an answer unread.
func (l *link) CutStranded(ctx context.Context) error {
	if l.control == nil || !l.stream.stranded(ctx, l.control, l.bounds.Silence) {
		return nil
	}
	return l.cut(errStranded)
}

// CutStranded is Lane.CutStranded for a connection that Connect has opened.
func (d *Dialer) CutStranded(ctx context.Context, conn *pgx.Conn) error {
	s, ok := conn.PgConn().Conn().(*stream)
	if !ok || d.Control == nil || !s.stranded(ctx, d.Control, d.Bounds.WithDefaults().Silence) {
		return nil
	}
	_ = s.Close()
	return errStranded
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if !idle && !errors.Is(err, pgx.ErrNoRows) || s.owed == 0 || !s.asked.Equal(asked) {
		s.idle = time.Time{}
		return false
	}
	again := s.idle.Equal(asked)
	s.idle = asked
	return again
}

func (s *stream) unanswered() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owed == 0 || s.asked.IsZero() {
		return 0
	}
	return time.Since(s.asked)
}

// unless calls f once nothing has come for so long from now on, until it is stopped. A Read that is under way then may
// have it called all the same.
func (s *stream) unless(silence time.Duration, f func()) (stop func()) {
	late := time.AfterFunc(silence, sync.OnceFunc(f))
	heard := func() { late.Reset(silence) }
	s.heard.Store(&heard)
	return func() {
		s.heard.Store(nil)
		late.Stop()
	}
}
