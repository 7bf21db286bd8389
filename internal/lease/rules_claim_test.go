package lease

import (
	"context"
	"fmt"
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
		return "SELECT x.group_xid FROM (" +
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

// taking is a way to take jobs of group a, three at most, that stops at the gate.
type taking func(s *stage) (pid uint32, take func() []int64)

// atGate has the session of that pid take something, and something else happen while it stands at the gate.
func atGate[T any](s *stage, pid uint32, take func() T, meanwhile func()) T {
	s.Helper()
	keeper := s.Session()
	keeper.Do("SELECT pg_advisory_lock(7)")
	taken := make(chan T, 1)
	go func() { taken <- take() }()
	s.Until(func() bool { return s.Blocked(pid) })
	meanwhile()
	keeper.Do("SELECT pg_advisory_unlock(7)")
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

// ofLane is a claim of a lane, of these groups.
func ofLane(at site, k kind, jobs int, groups ...string) taking {
	return func(s *stage) (uint32, func() []int64) {
		l := s.gatedLane(at, k)
		next := request(groups...)
		next.Jobs = jobs
		if next.Slot = k.lock == stmtLockSlot; next.Slot {
			s.limit(1)
		}
		return l.pg().PID(), func() (ids []int64) {
			h, _, err := l.Step(context.WithoutCancel(s.Context()), nil, next)
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
		c := s.Session()
		c.Do(beginSQL)
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
func rightTakings(at string) map[string]taking {
	head, batch, many := kind{stmtLock, stmtClaim}, kind{stmtLock, stmtClaimBatch}, kind{stmtLockMany, stmtClaimMany}
	slot := func(k kind) kind { return kind{stmtLockSlot, slotLooks[k.look]} }
	return map[string]taking{
		"one":                       ofLane(sites[at], head, 1, "a"),
		"a batch of the group":      ofLane(sites[at], batch, 3, "a"),
		"with the head of another":  ofLane(sites[at], many, 0, "a", "b"),
		"behind that of another":    ofLane(sites[at], many, 0, "b", "a"),
		"with that of a held group": ofLane(sites[at], many, 0, "a", "held", "b"),
		"one, with a slot":          ofLane(sites[at], slot(head), 1, "a"),
		"a batch, with a slot":      ofLane(sites[at], slot(batch), 3, "a"),
		"with others and a slot":    ofLane(sites[at], slot(many), 0, "b", "held", "a"),
	}
}

// meetings are what another worker does with the job that it has claimed, while a claim stands at the gate; and the job
// that stands first afterwards, 0: none that may run.
var meetings = map[string]struct {
	end   string // "": it dies
	first int64
}{
	"succeeds": {"DELETE FROM pgfifo.jobs WHERE id = 1; COMMIT", 2},
	"fails":    {"UPDATE pgfifo.jobs SET attempts = 1, run_at = 'infinity' WHERE id = 1; COMMIT", 0},
	"releases": {"COMMIT", 1},
	"dies":     {"", 1},
}

// meetingsAt returns the names of the meetings at a site. Where the other worker finds the group locked, or its head
// taken, it has nothing to end, and all meetings are the same.
func meetingsAt(at string) []string {
	if at == between || at == beforeHead {
		return []string{"dies"}
	}
	return slices.Sorted(maps.Keys(meetings))
}

// meet has a claim of group a stop at the gate while a lower id is committed there, and another worker claims the group
// and ends as it says. It returns what the claim took, and what it should have taken first.
func meet(s *stage, take taking, at, ending string) (ids []int64, first int64) {
	s.Helper()
	s.Exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'a'), ('q', 'b'), ('q', 'held')")
	holder, producer, worker := s.Session(), s.Session(), s.Session()
	holder.Do("BEGIN; SELECT FROM pgfifo.queue_groups WHERE group_id = 'held' FOR NO KEY UPDATE")
	producer.Do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
	s.Enqueue(2, "a")
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'b', ''), ('q', 'held', '')")
	first = meetings[ending].first
	pid, next := take(s)
	ids = atGate(s, pid, next, func() {
		producer.Do("COMMIT")
		worker.Do(beginSQL)
		_, id, err := rightShape.claim(s.Context(), worker.Conn, "a")
		require.NoError(s, err)
		switch at {
		case between: // the group is taken, and the lower id is seen
			require.Zero(s, id)
			first = 1
		case beforeHead: // nobody can have worked the lower id
			require.Zero(s, id)
			first = 2
		default:
			require.Equal(s, int64(1), id)
			if meetings[ending].end == "" {
				s.Terminate(worker.PgConn().PID())
			} else {
				worker.Do(meetings[ending].end)
			}
		}
	})
	return ids, first
}

// Wherever a claim is kept from running, whoever has had its group meanwhile and whatever was committed there, it takes
// what stands first afterwards.
func TestClaimTakesTheRightHead(t *testing.T) {
	t.Parallel()
	for at := range sites {
		for how, take := range rightTakings(at) {
			t.Run(at+"/"+how, func(t *testing.T) {
				s := newStage(t)
				for _, ending := range meetingsAt(at) {
					t.Run(ending, func(t *testing.T) {
						ids, first := meet(s.again(t), take, at, ending)
						if first == 0 {
							require.Empty(t, ids)
						} else {
							require.NotEmpty(t, ids)
							require.Equal(t, first, ids[0])
						}
					})
				}
			})
		}
	}
}

// oneStatementSQL locks the group, and then a head of its own snapshot, which is older than the lock.
const oneStatementSQL = `
SELECT j.id
FROM (SELECT g.xmax AS xid
      FROM pgfifo.queue_groups g
      WHERE g.queue = 'q' AND g.group_id = 'a'
      FOR NO KEY UPDATE SKIP LOCKED) g
CROSS JOIN LATERAL (SELECT j.id
                    FROM pgfifo.jobs j
                    WHERE j.ctid = (SELECT h.ctid
                                    FROM pgfifo.jobs h
                                    WHERE h.queue = 'q' AND h.group_id = 'a'
                                    ORDER BY h.queue, h.group_id, h.id
                                    LIMIT 1)
                    FOR NO KEY UPDATE SKIP LOCKED) j
WHERE g.xid IS NOT NULL`

// A head of a snapshot that is older than the lock is not the right one: a lower id that another worker has tried
// meanwhile is overtaken.
func TestOneStatementDoesNot(t *testing.T) {
	t.Parallel()
	for _, at := range []string{beforeGroup, groupIsRead} {
		for ending, wrong := range map[string]bool{"succeeds": false, "fails": true, "releases": true, "dies": true} {
			t.Run(at+"/"+ending, func(t *testing.T) {
				ids, first := meet(newStage(t), ofStatement(sites[at].put(oneStatementSQL)), at, ending)
				require.Equal(t, []int64{2}, ids)
				require.Equal(t, wrong, first != 2)
			})
		}
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
	"all done": "DELETE FROM pgfifo.jobs WHERE id <= 3",
	"the head backs off": "UPDATE pgfifo.jobs " +
		"SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 1",
	"the head fails": "UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 1",
	"one done, the next backs off": "DELETE FROM pgfifo.jobs WHERE id = 1; UPDATE pgfifo.jobs " +
		"SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 2",
	"one done, the next buried": "DELETE FROM pgfifo.jobs WHERE id <= 2",
	"one done, the last fails": "DELETE FROM pgfifo.jobs WHERE id <= 2; UPDATE pgfifo.jobs SET attempts = 1 " +
		"WHERE id = 3",
	"given back": "SELECT 1",
	"given back, the next fails": "UPDATE pgfifo.jobs " +
		"SET attempts = 1, run_at = statement_timestamp() + interval '1 hour' WHERE id = 2",
	"still at work": "",
}

// judge lets a worker take jobs while another one ends its batch of the jobs 1 to 3, which it may have begun late,
// behind the snapshot. It returns what is wrong with what the worker took: it must be what stands first in the group
// now, without one that is not due, and nobody else's.
func judge(s *stage, take taking, ending string, late bool) (ids []int64, fault string) {
	s.Helper()
	s.Enqueue(5, "a")
	s.Exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'b'), ('q', 'held')")
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'b', ''), ('q', 'held', '')")
	other := s.Session()
	other.Do("BEGIN; SELECT FROM pgfifo.queue_groups WHERE group_id = 'held' FOR NO KEY UPDATE")
	holder := s.Session()
	hold := func() {
		holder.Do(beginSQL)
		_, _, err := rightShape.claim(s.Context(), holder.Conn, "a")
		require.NoError(s, err)
	}
	if !late {
		hold()
	}
	pid, next := take(s)
	ids = atGate(s, pid, next, func() {
		if late {
			hold()
		}
		if ending != "" {
			holder.Do(ending + "; COMMIT")
		}
	})
	if ending == "" && len(ids) > 0 {
		return ids, fmt.Sprint("took ", ids, " of another")
	}
	due := pgtest.Column[int64](s.DB, `SELECT id FROM pgfifo.jobs WHERE group_id = 'a'
		AND NOT EXISTS (SELECT FROM pgfifo.jobs h WHERE h.group_id = 'a' AND h.id <= jobs.id
		AND h.run_at > statement_timestamp())
		ORDER BY id`)
	for i, id := range ids {
		if i >= len(due) || due[i] != id {
			return ids, fmt.Sprint("took ", ids, " of ", due)
		}
	}
	return ids, ""
}

// Whatever happens while a claim is on its way to the group, it takes what stands first afterwards, or nothing.
func TestBatchTakesWhatIsFirst(t *testing.T) {
	t.Parallel()
	for _, at := range []string{beforeGroup, groupIsRead} {
		for how, take := range rightTakings(at) {
			t.Run(at+"/"+how, func(t *testing.T) {
				s := newStage(t)
				for name, ending := range endings {
					t.Run(name, func(t *testing.T) {
						_, fault := judge(s.again(t), take, ending, at == groupIsRead)
						require.Empty(t, fault)
					})
				}
			})
		}
	}
}

func TestObviousBatchesDoNot(t *testing.T) {
	t.Parallel()
	for how, take := range brokenTakings {
		t.Run(how, func(t *testing.T) {
			s, faults := newStage(t), 0
			for name, ending := range endings {
				t.Run(name, func(t *testing.T) {
					if _, fault := judge(s.again(t), take, ending, false); fault != "" {
						faults++
					}
				})
			}
			require.NotZero(t, faults)
		})
	}
}
