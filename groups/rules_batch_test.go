package groups

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A gate stops a statement between its snapshot and its locks, until the test opens it.
const gate = "(SELECT pg_advisory_xact_lock_shared(7) OFFSET 0) gate, "

// A site is where in a claim the gate stands: good is the text that bad puts it into.
type site struct{ good, bad string }

var (
	beforeGroup = site{"FROM pgfifo.queue_groups g", "FROM " + gate + "pgfifo.queue_groups g"}
	groupIsRead = site{"SELECT g.xmax AS xid", "SELECT g.xmax AS xid, pg_advisory_xact_lock_shared(7)"} // and not locked yet
)

// taking is a way to take jobs of group a, three at most, that stops at the gate.
type taking func(s *stage) (pid uint32, take func() []int64)

// gatedLane is one whose statement of that name stops at the gate.
func (s *stage) gatedLane(at site, name string) *Lane {
	s.Helper()
	l := s.lane()
	sql := map[string]string{
		stmtClaim: claimSQL, stmtKnown: claimKnownSQL, stmtBatch: claimBatchSQL, stmtBatchKnown: claimBatchKnownSQL, stmtMany: claimManySQL,
	}[name]
	gated, err := l.pg().Prepare(s.Context(), "gated", mutate(s.T, sql, at.good, at.bad), nil)
	require.NoError(s, err)
	l.stmts[name] = gated
	return l
}

// ofLane is a claim of a lane, of these groups.
func ofLane(at site, name string, jobs int, groups ...string) taking {
	return func(s *stage) (uint32, func() []int64) {
		l := s.gatedLane(at, name)
		turn := &Turn{Key: group(groups[0]), Jobs: jobs, known: name == stmtKnown || name == stmtBatchKnown, ahead: 9}
		for _, id := range groups[1:] {
			turn.With = append(turn.With, &Turn{Key: group(id)})
		}
		return l.pg().PID(), func() (ids []int64) {
			h, _, err := l.Step(context.WithoutCancel(s.Context()), nil, turn)
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
	}
}

// ofStatement is one statement that takes up to three jobs at once.
func ofStatement(sql string) taking {
	return func(s *stage) (uint32, func() []int64) {
		c := s.session()
		c.do(beginSQL)
		return c.PgConn().PID(), func() []int64 {
			rows, _ := c.Query(context.WithoutCancel(s.Context()), sql)
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				return []int64{-1}
			}
			return ids
		}
	}
}

// rightTakings are all claims of a lane.
func rightTakings(at site) map[string]taking {
	return map[string]taking{
		"a batch of the group":      ofLane(at, stmtBatch, 3, "a"),
		"the same, nothing paused":  ofLane(at, stmtBatchKnown, 3, "a"),
		"one":                       ofLane(at, stmtClaim, 1, "a"),
		"one, nothing paused":       ofLane(at, stmtKnown, 1, "a"),
		"with the head of another":  ofLane(at, stmtMany, 0, "a", "b"),
		"behind that of another":    ofLane(at, stmtMany, 0, "b", "a"),
		"with that of a held group": ofLane(at, stmtMany, 0, "a", "held", "b"),
	}
}

var brokenTakings = map[string]taking{
	// The group's row alone says nothing of what its last holder did since the snapshot.
	"behind the head in the snapshot of the claim": ofStatement(`
		SELECT j.id FROM ` + gate + `pgfifo.queue_groups g CROSS JOIN LATERAL (
			SELECT w.id FROM pgfifo.jobs w WHERE w.queue = g.queue AND w.group_id = g.group_id ORDER BY w.id LIMIT 3) j
		WHERE g.queue = 'q' AND g.group_id = 'a' FOR NO KEY UPDATE OF g SKIP LOCKED`),
	// What is locked, or not due, is passed over, and the next one taken.
	"jobs, without their group": ofStatement(`
		SELECT j.id FROM ` + gate + `pgfifo.jobs j
		WHERE j.queue = 'q' AND j.group_id = 'a' AND (j.run_at IS NULL OR j.run_at <= statement_timestamp())
		ORDER BY j.id LIMIT 3 FOR UPDATE OF j SKIP LOCKED`),
	"jobs and their group": ofStatement(`
		SELECT j.id FROM ` + gate + `pgfifo.jobs j JOIN pgfifo.queue_groups g USING (queue, group_id)
		WHERE j.queue = 'q' AND j.group_id = 'a' AND (j.run_at IS NULL OR j.run_at <= statement_timestamp())
		ORDER BY j.id LIMIT 3 FOR UPDATE OF j, g SKIP LOCKED`),
}

// endings are what the holder of a batch does between another worker's snapshot and its locks.
var endings = map[string]string{
	"all done":                     "DELETE FROM pgfifo.jobs WHERE id <= 3",
	"the head backs off":           "UPDATE pgfifo.jobs SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 1",
	"the head fails":               "UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 1",
	"one done, the next backs off": "DELETE FROM pgfifo.jobs WHERE id = 1; UPDATE pgfifo.jobs SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 2",
	"one done, the next buried":    "DELETE FROM pgfifo.jobs WHERE id <= 2",
	"one done, the last fails":     "DELETE FROM pgfifo.jobs WHERE id <= 2; UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 3",
	"given back":                   "SELECT 1",
	"given back, the next fails":   "UPDATE pgfifo.jobs SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 2",
	"still at work":                "",
}

// judge lets a worker take jobs while another one ends its batch of the jobs 1 to 3, which it may have begun late, behind the
// snapshot. It returns what is wrong with what the worker took: it must be what stands first in the group now, without one
// that is not due, and nobody else's.
func judge(t *testing.T, take taking, ending string, late bool) (ids []int64, fault string) {
	s := newStage(t)
	s.enqueue(5, "a")
	s.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'b'), ('q', 'held')")
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'b', ''), ('q', 'held', '')")
	other := s.session()
	other.do("BEGIN; SELECT FROM pgfifo.queue_groups WHERE group_id = 'held' FOR NO KEY UPDATE")
	holder := s.session()
	hold := func() {
		holder.do(beginSQL)
		_, _, err := rightShape.claim(t.Context(), holder.Conn, "a")
		require.NoError(t, err)
	}
	if !late {
		hold()
	}
	keeper := s.session()
	keeper.do("SELECT pg_advisory_lock(7)")

	pid, next := take(s)
	taken := make(chan []int64, 1)
	go func() { taken <- next() }()
	s.until(func() bool { return s.blocked(pid) })
	if late {
		hold()
	}
	if ending != "" {
		holder.do(ending + "; COMMIT")
	}
	keeper.do("SELECT pg_advisory_unlock(7)")
	ids = <-taken
	if ending == "" && len(ids) > 0 {
		return ids, fmt.Sprint("took ", ids, " of another")
	}
	due := column[int64](s, `SELECT id FROM pgfifo.jobs WHERE group_id = 'a'
		AND NOT EXISTS (SELECT FROM pgfifo.jobs h WHERE h.group_id = 'a' AND h.id <= jobs.id AND h.run_at > statement_timestamp())
		ORDER BY id`)
	for i, id := range ids {
		if i >= len(due) || due[i] != id {
			return ids, fmt.Sprint("took ", ids, " of ", due)
		}
	}
	return ids, ""
}

// Whatever happens between the snapshot of a claim and its locks, it takes what stands first afterwards, or nothing.
func TestBatchTakesWhatIsFirst(t *testing.T) {
	t.Parallel()
	for how, take := range rightTakings(beforeGroup) {
		for name, ending := range endings {
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				for _, late := range []bool{false, true} {
					ids, fault := judge(t, take, ending, late)
					require.Empty(t, fault)
					require.Equal(t, strings.HasPrefix(name, "given back"), len(ids) > 0, "it took %v", ids)
				}
				_, fault := judge(t, rightTakings(groupIsRead)[how], ending, true)
				require.Empty(t, fault)
			})
		}
	}
}

// Jobs behind the head that somebody changes behind the snapshot, whatever becomes of the head, are left for the next claim.
func TestBatchLeavesWhatHasChanged(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		change string
		want   []int64
	}{
		"the last of them": {"UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 3", []int64{1, 2}},
		"deleted":          {"DELETE FROM pgfifo.jobs WHERE id = 2", []int64{1}},
		"behind them":      {"UPDATE pgfifo.jobs SET attempts = 1 WHERE id > 3", []int64{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, stmt := range []string{stmtBatch, stmtBatchKnown} {
				s := newStage(t)
				s.enqueue(5, "a")
				operator, keeper := s.session(), s.session()
				keeper.do("SELECT pg_advisory_lock(7)")
				pid, next := ofLane(beforeGroup, stmt, 3, "a")(s)
				taken := make(chan []int64, 1)
				go func() { taken <- next() }()
				s.until(func() bool { return s.blocked(pid) })
				operator.do(x.change)
				keeper.do("SELECT pg_advisory_unlock(7)")
				require.Equal(t, x.want, <-taken, stmt)
			}
		})
	}
}

// A lower id that is committed behind the snapshot is not in the batch. What was enqueued after it is not, either.
func TestBatchDoesNotGoPastALateJob(t *testing.T) {
	t.Parallel()
	for _, claim := range []string{stmtBatch, stmtBatchKnown} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'a')")
			producer, keeper := s.session(), s.session()
			producer.do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
			s.enqueue(2, "a")
			keeper.do("SELECT pg_advisory_lock(7)")

			pid, next := ofLane(beforeGroup, claim, 9, "a")(s)
			taken := make(chan []int64, 1)
			go func() { taken <- next() }()
			s.until(func() bool { return s.blocked(pid) })
			producer.do("COMMIT")
			require.Equal(t, []int64{4}, s.enqueue(1, "a"))
			keeper.do("SELECT pg_advisory_unlock(7)")
			require.Equal(t, []int64{2, 3}, <-taken)
		})
	}
}

// A head whose row is another one by the time that it is locked, as servers show it that read a changed row again, is a miss.
func TestBatchWhoseHeadWasReadAgain(t *testing.T) {
	t.Parallel()
	for stmt, sql := range map[string]string{stmtBatch: claimBatchSQL, stmtBatchKnown: claimBatchKnownSQL} {
		t.Run(stmt, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.enqueue(5, "a")
			l := s.lane()
			moved, err := l.pg().Prepare(t.Context(), "moved", mutate(t, sql, "SELECT j.ctid,", "SELECT '(77,7)'::tid AS ctid,"), nil)
			require.NoError(t, err)
			right := l.stmts[stmt]
			l.stmts[stmt] = moved
			turn := &Turn{Key: group("a"), Jobs: 3, known: stmt == stmtBatchKnown}
			h, _, err := l.Step(t.Context(), nil, turn)
			require.NoError(t, err)
			require.Nil(t, h)
			l.stmts[stmt] = right
			h, _, err = l.Step(t.Context(), nil, turn)
			require.NoError(t, err)
			require.Equal(t, int64(1), h.ID)
		})
	}
}

func TestObviousBatchesDoNot(t *testing.T) {
	t.Parallel()
	for how, take := range brokenTakings {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var faults []string
			for _, ending := range endings {
				if _, fault := judge(t, take, ending, false); fault != "" {
					faults = append(faults, fault)
				}
			}
			require.NotEmpty(t, faults)
		})
	}
}
