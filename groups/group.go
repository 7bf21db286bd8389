package groups

import (
	"time"

	"github.com/uptrace/bun"
)

// A QueueGroup is the row whose lock is a group's turn. Workers make it when they first see a job of the group, and
// delete it when the group has been idle for a while, so its absence means nothing.
//
// In a queue with Settings.SessionLease of package fifo a session has the group without a lock, and the row says which.
type QueueGroup struct {
	bun.BaseModel `bun:"table:pgfifo.queue_groups,alias:g"`

	Queue     string    `bun:"queue,pk"`
	GroupID   string    `bun:"group_id,pk"`
	CreatedAt time.Time `bun:"created_at,notnull,default:statement_timestamp()"`

	// Session has the group: it is the number of an advisory lock, which the session of a worker has for as long as it
	// lives. Zero: none. The others tell of the last such claim.
	Session int64     `bun:"session,nullzero"`
	Token   int64     `bun:"token,nullzero"`                // its fencing token
	JobID   int64     `bun:"job,nullzero"`                  // the job that it runs,
	Attempt int       `bun:"attempt,type:INTEGER,nullzero"` // for the nth time,
	Since   time.Time `bun:"since,nullzero"`                // from then on
}
