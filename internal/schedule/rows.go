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
func (s *Scout) makeReady(ctx context.Context, conn *pgx.Conn, found []Candidate) (_ []Candidate, err error) {
	found = s.unrefused(found)
	for _, row := range []struct {
		sql string
		of  func(c *Candidate) bool
	}{
		{statement("ensure"), func(c *Candidate) bool { return c.missing && !c.Paused }},
		{statement("reclaim"), func(c *Candidate) bool { return c.dead }},
		{statement("ensure_group_slots"), func(c *Candidate) bool { return c.GroupLimit > 0 }},
	} {
		if found, err = s.prepareRows(ctx, conn, row.sql, found, row.of); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// prepareRows runs a statement for some of the groups that were found, if there are any: it makes their rows as a claim
// needs them. If the server refuses that of one of them, the others are made ready all the same, and this one is left
// out.
func (s *Scout) prepareRows(
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
	sql = s.Schema.Qualify(sql)
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
			s.refuse(key, err)
		case err != nil:
			return nil, fmt.Errorf("schedule: make rows of groups: %w", err)
		default:
			delete(s.refused, key)
		}
	}
	return s.unrefused(found), nil
}

// A refusal says how often one after the other the server has refused a group's row, and until when it is left alone.
type refusal struct {
	n     int
	until time.Time
}

func (s *Scout) refuse(key groups.Key, err error) {
	if s.refused == nil || len(s.refused) >= tuning.Known {
		s.refused = make(map[groups.Key]refusal)
	}
	n := s.refused[key].n + 1
	s.refused[key] = refusal{n, time.Now().Add(troubleDelay(n))}
	if s.Trouble != nil {
		s.Trouble(key, err)
	}
}

// unrefused leaves those groups out that are to be left alone.
func (s *Scout) unrefused(found []Candidate) []Candidate {
	if len(s.refused) == 0 {
		return found
	}
	now := time.Now()
	return slices.DeleteFunc(found, func(c Candidate) bool { return now.Before(s.refused[c.Key].until) })
}
