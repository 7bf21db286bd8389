package lease

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A gate stops a statement until the test opens it.
const gate = "(SELECT pg_advisory_xact_lock_shared(7) OFFSET 0) gate, "

// A site is where in a claim the gate stands: in the statement that locks groups, or in the one that looks at them.
type site struct {
	looks bool
	put   func(sql string) string
}

func replace(good, bad string) func(string) string {
	return func(sql string) string { return strings.Replace(sql, good, bad, 1) }
}

const (
	beforeGroup = "before the group's row"
	groupIsRead = "between the row's read and its lock"
	between     = "between the two statements"
	beforeHead  = "before the head is locked"
)

// sites are all places in which a claim may be kept from running.
var sites = map[string]site{
	beforeGroup: {false, replace("FROM pgfifo.queue_groups g", "FROM "+gate+"pgfifo.queue_groups g")},
	groupIsRead: {false, func(sql string) string {
		if strings.Contains(sql, "g.xmax AS xid") {
			return replace("g.xmax AS xid", "g.xmax AS xid, pg_advisory_xact_lock_shared(7)")(sql)
		}
		return "SELECT x.group_xid, x.own_xid FROM (" +
			replace("AS group_xid", "AS group_xid, pg_advisory_xact_lock_shared(7)")(sql) + ") x"
	}},
	between: {false, func(sql string) string {
		return "WITH locked AS MATERIALIZED (" + sql + `) SELECT * FROM locked
			WHERE (SELECT count(*) FROM locked) > 0 AND pg_advisory_xact_lock_shared(7) IS NOT NULL`
	}},
	beforeHead: {true, func(sql string) string {
		for _, ours := range []string{
			"pg_current_xact_id_if_assigned() IS NOT NULL", "pg_current_xact_id_if_assigned()::xid",
		} {
			sql = replace(ours, ours+" AND (SELECT pg_advisory_xact_lock_shared(7)) IS NOT NULL")(sql)
		}
		return sql
	}},
}

// A taking is a way to take jobs of group a, three at most: a claim of that kind, for these groups.
type taking struct {
	kind
	jobs   int
	groups []string
}

// A cast is who meets at a gate, again and again: connections cost more than all that they do there.
type cast struct {
	gated                    *Lane // that of the claim which stops
	worker                   *Lane // that of another one
	keeper, holder, producer *pgx.Conn
}

// cast returns those who meet where a claim stops that takes so.
func (s *stage) cast(at site, t taking) *cast {
	s.Helper()
	connect := func() *pgx.Conn { return pgtest.Conn(s, s.URL) }
	return &cast{s.gatedLane(at, t.kind), s.lane(), connect(), connect(), connect()}
}

// run runs statements on one of the cast's connections.
func (s *stage) run(c *pgx.Conn, sql string) {
	s.Helper()
	_, err := c.Exec(s.Context(), sql)
	require.NoError(s, err)
}

// atGate has the claim be made, and something else happen while it stands at the gate. It returns what it took.
func (c *cast) atGate(s *stage, t taking, meanwhile func()) (ids []int64) {
	s.Helper()
	s.run(c.keeper, "SELECT pg_advisory_lock(7)")
	taken := make(chan []int64, 1)
	go func() { taken <- c.take(s, t) }()
	s.Until(func() bool { return s.Blocked(c.gated.pg().PID()) })
	meanwhile()
	s.run(c.keeper, "SELECT pg_advisory_unlock(7)")
	return <-taken
}

// A kind is a kind of claim, by the names of its two statements.
type kind struct{ lock, look string }

// gatedLane is one whose claims of the kind stop at the gate.
func (s *stage) gatedLane(at site, k kind) *Lane {
	s.Helper()
	l := s.lane()
	name := k.lock
	if at.looks {
		name = k.look
	}
	sql := at.put(ownTexts[name])
	require.NotEqual(s, ownTexts[name], sql)
	gated, err := l.pg().Prepare(s.Context(), "gated", sql, nil)
	require.NoError(s, err)
	l.stmts[name] = gated
	return l
}

// take makes the claim, and returns which jobs of group a it took.
func (c *cast) take(s *stage, t taking) (ids []int64) {
	next := request(t.groups...)
	next.Jobs, next.Slot = t.jobs, t.lock == stmtLockSlot
	h, _, err := c.gated.Step(context.WithoutCancel(s.Context()), nil, next)
	if err != nil {
		return []int64{-1}
	}
	if h == nil || !h.Ready() {
		return nil
	}
	for _, held := range append([]Held{h.Held}, h.Rest...) {
		if held.GroupID == "a" {
			ids = append(ids, held.ID)
		}
	}
	return ids
}

// takings are all claims of a lane, by what they take.
func takings() map[string]taking {
	head, batch, many := kind{stmtLock, stmtClaim}, kind{stmtLock, stmtClaimBatch}, kind{stmtLockMany, stmtClaimMany}
	slot := func(k kind) kind { return kind{stmtLockSlot, slotLooks[k.look]} }
	return map[string]taking{
		"one":                       {head, 1, []string{"a"}},
		"a batch of the group":      {batch, 3, []string{"a"}},
		"with the head of another":  {many, 0, []string{"a", "b"}},
		"behind that of another":    {many, 0, []string{"b", "a"}},
		"with that of a held group": {many, 0, []string{"a", "held", "b"}},
		"one, with a slot":          {slot(head), 1, []string{"a"}},
		"a batch, with a slot":      {slot(batch), 3, []string{"a"}},
		"with others and a slot":    {slot(many), 0, []string{"b", "held", "a"}},
	}
}

// endings are what another worker does with the first three jobs of the group, while a claim stands at the gate.
var endings = map[string]string{
	"all done": "DELETE FROM pgfifo.jobs WHERE id <= 3",
	headBacksOff: "UPDATE pgfifo.jobs " +
		"SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 1",
	"the head fails": "UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 1",
	headDone:         "DELETE FROM pgfifo.jobs WHERE id = 1",
	"one done, the next backs off": "DELETE FROM pgfifo.jobs WHERE id = 1; UPDATE pgfifo.jobs " +
		"SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 2",
	"one done, the next buried": "DELETE FROM pgfifo.jobs WHERE id <= 2",
	"one done, the last fails": "DELETE FROM pgfifo.jobs WHERE id <= 2; UPDATE pgfifo.jobs SET attempts = 1 " +
		"WHERE id = 3",
	givenBack: "SELECT 1",
	"given back, the next backs off": "UPDATE pgfifo.jobs " +
		"SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 2",
	atWork: "",
	dies:   "",
}

const (
	headDone     = "the head done"
	headBacksOff = "the head backs off"
	givenBack    = "given back"
	atWork       = "still at work"
	dies         = "it dies"
)

// endingsAt returns the names of the endings at a site. Where the other worker finds the group locked, or its head
// taken, it has nothing to end, and all of them are the same.
func endingsAt(at string, early bool) []string {
	switch {
	case early && at != beforeGroup:
		return nil
	case at == between || at == beforeHead:
		return []string{givenBack}
	case at == beforeGroup && !early: // all of them meet a claim that has read the row
		return []string{headDone, headBacksOff, givenBack, dies}
	}
	return slices.Sorted(maps.Keys(endings))
}

// meet has a claim of group a stop at the gate while a lower id is committed there, and another worker claims the group
// and ends as it says; early says that both have come before the claim. What the claim takes must be what stands first
// in the group afterwards, without one that is not due, and nobody else's.
func (c *cast) meet(s *stage, t taking, at, ending string, early bool) {
	s.Helper()
	if t.lock == stmtLockSlot {
		s.limit(1)
	}
	s.Exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'a'), ('q', 'b'), ('q', 'held')")
	s.run(c.holder, "BEGIN; SELECT FROM pgfifo.queue_groups WHERE group_id = 'held' FOR NO KEY UPDATE")
	s.run(c.producer, "BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
	s.Enqueue(4, "a")
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'b', ''), ('q', 'held', '')")
	begin := func() {
		s.run(c.producer, "COMMIT")
		h := s.step(c.worker, nil, request("a"))
		if at == between || at == beforeHead {
			require.Nil(s, h)
		} else {
			require.Equal(s, int64(1), h.ID)
		}
	}
	if early {
		begin()
	}
	ids := c.atGate(s, t, func() {
		if !early {
			begin()
		}
		switch ending {
		case atWork:
		case dies:
			s.Terminate(c.worker.pg().PID())
		default:
			_, err := c.worker.Conn().Exec(s.Context(), endings[ending])
			require.NoError(s, err)
			s.end(c.worker)
		}
	})
	s.requireFirst(ids, at, ending)
	s.end(c.gated)
	s.run(c.holder, "ROLLBACK")
	if ending == atWork {
		s.end(c.worker)
	}
}

// requireFirst checks what a claim took.
func (s *stage) requireFirst(ids []int64, at, ending string) {
	s.Helper()
	due := pgtest.Column[int64](s.DB, `SELECT id FROM pgfifo.jobs WHERE group_id = 'a'
		AND NOT EXISTS (SELECT FROM pgfifo.jobs h WHERE h.group_id = 'a' AND h.id <= jobs.id
		AND h.run_at > statement_timestamp())
		ORDER BY id`)
	switch {
	case ending == atWork:
		due = nil
	case at == beforeHead: // nobody can have worked the lower id
		due = due[1:]
	}
	require.True(s, len(ids) <= len(due) && slices.Equal(due[:len(ids)], ids), "took %v of %v", ids, due)
	if len(due) > 0 && pgtest.One[bool](s.DB, "SELECT attempts = 0 FROM pgfifo.jobs WHERE id = $1", due[0]) {
		require.NotEmpty(s, ids) // one that has failed may be left for a claim of its own
	}
}

// Wherever a claim is kept from running, whoever has had its group meanwhile and whatever was committed there, it takes
// what stands first afterwards.
func TestClaimTakesTheRightHead(t *testing.T) {
	t.Parallel()
	for at := range sites {
		for how, take := range takings() {
			t.Run(at+"/"+how, func(t *testing.T) {
				s := newStage(t)
				c := s.cast(sites[at], take)
				for when, early := range map[string]bool{"meanwhile": false, "before": true} {
					for _, ending := range endingsAt(at, early) {
						meet := func(t *testing.T) { c.meet(s.again(t), take, at, ending, early) }
						if !t.Run(ending+", "+when, meet) {
							return // nobody has let go of what he holds
						}
						if ending == dies {
							c.worker = s.lane()
						}
					}
				}
			})
		}
	}
}
