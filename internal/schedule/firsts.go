package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schema"
)

// A First is the first group of a queue that has jobs, in the order of the groups' ids.
type First struct {
	groups.Key
	Waits time.Duration // how long its head has been due; 0 if it is not, or is paused or held
	Seen  bool          // some worker that handles the queue has looked at the group
}

// Firsts returns the first groups of up to limit queues, in the order of the queues' names from behind after: one index
// probe each, whatever the backlog. db is a transaction, whose planner settings it changes.
func Firsts(ctx context.Context, db pgx.Tx, name schema.Name, after string, limit int) ([]First, error) {
	if _, err := db.Exec(ctx, lease.LocalPlannerSettings); err != nil {
		return nil, fmt.Errorf("schedule: look at all queues: %w", err)
	}
	var list []First
	err := heads(ctx, db, name.Qualify(firstsSQL), []any{after, limit}, func(c Candidate) {
		f := First{Key: c.Key, Seen: !c.missing}
		if c.Holder == 0 && !c.Paused {
			f.Waits = max(-c.DueIn, 0)
		}
		list = append(list, f)
	})
	return list, err
}
