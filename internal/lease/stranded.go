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

// A debt is what the server owes a session.
type debt struct {
	owed  int       // ReadyForQuery messages that are still to be read
	asked time.Time // when the server began to owe an answer, the last time
	idle  time.Time // what asked was when the session was last found idle, with that answer owed
}

// unanswered returns for how long the server has owed an answer, or 0.
func (d *debt) unanswered() time.Duration {
	if d.owed == 0 || d.asked.IsZero() {
		return 0
	}
	return time.Since(d.asked)
}

// found enters whether the session was idle, with an answer owed that it was asked for then. It reports whether it was
// so the time before, too.
func (d *debt) found(asked time.Time, idle bool) bool {
	if !idle || d.owed == 0 || !d.asked.Equal(asked) {
		d.idle = time.Time{}
		return false
	}
	again := d.idle.Equal(asked)
	d.idle = asked
	return again
}

// isIdle asks whether a session waits for its client, or has ended.
func isIdle(ctx context.Context, control *pgxpool.Pool, pid int32) bool {
	idle := false
	err := control.QueryRow(ctx, idleSQL, pid).Scan(&idle)
	return idle || errors.Is(err, pgx.ErrNoRows)
}
