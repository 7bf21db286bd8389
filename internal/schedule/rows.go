package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// makeReady makes the rows of the groups that were found as their claims need them. It leaves out those that are left
// alone, because the server has refused their rows.
func (r *reader) makeReady(ctx context.Context, conn *pgx.Conn, found []Candidate) (_ []Candidate, err error) {
	found = r.without(found)
	for _, row := range []struct {
		sql string
		of  func(c *Candidate) bool
	}{
		{statement("ensure"), func(c *Candidate) bool { return c.missing && !c.Paused }},
		{statement("reclaim"), func(c *Candidate) bool { return c.dead }},
		{statement("ensure_group_slots"), func(c *Candidate) bool { return c.GroupLimit > 0 }},
	} {
		if found, err = r.prepareRows(ctx, conn, row.sql, found, row.of); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// prepareRows runs a statement for some of the groups that were found, if there are any: it makes their rows as a claim
// needs them. If the server refuses that of one of them, the others are made ready all the same, and this one is left
// out.
func (r *reader) prepareRows(
	ctx context.Context, conn *pgx.Conn, sql string, found []Candidate, some func(c *Candidate) bool,
) ([]Candidate, error) {
	var keys []groups.Key
	for i := range found {
		if some(&found[i]) {
			keys = append(keys, found[i].Key)
		}
	}
	if len(keys) == 0 {
		return found, nil
	}
	sql = r.Schema.Qualify(sql)
	queues, ids := columns(keys)
	_, err := conn.Exec(ctx, sql, queues, ids)
	switch {
	case err == nil:
		return found, nil
	case !lease.Blames(err):
		return nil, fmt.Errorf("schedule: make rows of groups: %w", err)
	}
	for i, key := range keys {
		_, err := conn.Exec(ctx, sql, queues[i:i+1], ids[i:i+1])
		switch {
		case lease.Blames(err):
			r.refuse(key, err)
		case err != nil:
			return nil, fmt.Errorf("schedule: make rows of groups: %w", err)
		default:
			delete(r.refused, key)
		}
	}
	return r.without(found), nil
}

// refuse notes that the server has refused the row of a group.
func (r *reader) refuse(key groups.Key, err error) {
	if len(r.refused) >= tuning.Known {
		clear(r.refused)
	}
	t := r.refused[key]
	t.meet(false)
	r.refused[key] = t
	if r.Trouble != nil {
		r.Trouble(key, err)
	}
}

// without leaves out the groups that are to be left alone.
func (r *reader) without(found []Candidate) []Candidate {
	return slices.DeleteFunc(found, func(c Candidate) bool {
		t, ok := r.refused[c.Key]
		return ok && time.Now().Before(t.until())
	})
}
