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

// Collect deletes rows of groups that have been without jobs since they were made, at least idle ago: up to limit of
// those behind after. It returns how many it deleted and the last key that it looked at; the zero Key at the end.
//
// db is a transaction at READ COMMITTED: its second statement must see what was enqueued since its first. It may run
// beside anything: a group that is held keeps its row, and a message that arrives meanwhile gets a new one. Where
// several jobs of a group may run at once, one that runs keeps its slot and its mark.
func Collect(
	ctx context.Context, db pgx.Tx, name schema.Name, idle time.Duration, after groups.Key, limit int,
) (int64, groups.Key, error) {
	var queues, ids []string
	var last groups.Key
	err := query(ctx, db, "collect", name.Qualify(statement("collect_lock")), []any{
		after.Queue, after.GroupID, idle.Microseconds(), limit,
	}, []any{&last.Queue, &last.GroupID}, func() {
		queues, ids = append(queues, last.Queue), append(ids, last.GroupID)
	})
	if err != nil || len(ids) == 0 {
		return 0, groups.Key{}, err
	}
	tag, err := db.Exec(ctx, name.Qualify(statement("collect")), queues, ids)
	if err == nil {
		_, err = db.Exec(ctx, name.Qualify(statement("collect_rest")), queues, ids)
	}
	if err != nil {
		return 0, groups.Key{}, fmt.Errorf("schedule: collect: %w", err)
	}
	if len(ids) < limit {
		last = groups.Key{}
	}
	return tag.RowsAffected(), last, nil
}

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
