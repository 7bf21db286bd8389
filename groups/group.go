package groups

import (
	"time"

	"github.com/uptrace/bun"
)

// A QueueGroup is the row whose lock is a group's turn. Workers make it when they first see a job of the group, and
// delete it when the group has been idle for a while, so its absence means nothing.
type QueueGroup struct {
	bun.BaseModel `bun:"table:pgfifo.queue_groups,alias:g"`

	Queue     string    `bun:"queue,pk"`
	GroupID   string    `bun:"group_id,pk"`
	CreatedAt time.Time `bun:"created_at,notnull,default:statement_timestamp()"`
}
