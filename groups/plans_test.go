package groups

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A plan is a node of EXPLAIN (FORMAT JSON).
type plan struct {
	NodeType  string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	IndexName string `json:"Index Name"`
	Hit       int    `json:"Shared Hit Blocks"`
	Read      int    `json:"Shared Read Blocks"`
	Plans     []plan
}

// scans returns how the plan reads the library's tables.
func (p plan) scans() (all []string) {
	switch {
	case p.Relation != "" && strings.HasPrefix(p.NodeType, "Index"):
		all = append(all, p.Relation+" by "+p.IndexName)
	case p.Relation != "":
		all = append(all, p.Relation+" by "+p.NodeType)
	}
	for _, child := range p.Plans {
		all = append(all, child.scans()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var hotStatements = map[string]struct{ sql, args string }{
	"lock":       {lockSQL, "'q', 'g00007'"},
	"lockmany":   {lockManySQL, "'q', '{g00007,g00008}'"},
	"ahead":      {aheadSQL, "'q', 'g00007', 0"},
	"claim":      {claimSQL, "'q', 'g00007', 0"},
	"many":       {claimManySQL, "'q', '{g00007,g00008}', '{0,0}', 16777216"},
	"batch":      {claimBatchSQL, "'q', 'g00007', 0, 11, 1000000"},
	"candidates": {candidatesSQL, "'q', '', 100"},
	"adjacent":   {candidatesAdjacentSQL, "'q', '', 100"},
	"new":        {newSQL, "'{q,r}', 50, 150, 'infinity'"},
	"due":        {dueSQL, "'q', now() - interval '1 second', 0, now() + interval '1 second', 100"},
	"probe":      {probeSQL, "'{q,q}', '{g00007,g00008}'"},
	"firsts":     {firstsSQL, "'', 100"},
}

// indexes are those that only these statements may read.
var indexes = map[string]string{"new": "jobs by jobs_new", "due": "jobs by jobs_due"}

// explain returns the plan that a lane would use: prepared, with its session's settings.
func explain(t *testing.T, c *pgx.Conn, name, options string) plan {
	t.Helper()
	var text string
	require.NoError(t, c.QueryRow(t.Context(),
		"EXPLAIN ("+options+", FORMAT JSON) EXECUTE "+name+" ("+hotStatements[name].args+")").Scan(&text))
	var plans []struct{ Plan plan }
	require.NoError(t, json.Unmarshal([]byte(text), &plans))
	return plans[0].Plan
}

// planner returns a connection with a lane's settings and the hot statements prepared.
func (s *stage) planner() *pgx.Conn {
	s.Helper()
	c, err := s.dialer(Session{}).Connect(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { _ = c.Close(context.WithoutCancel(s.Context())) })
	for name, st := range hotStatements {
		_, err := c.Exec(s.Context(), "PREPARE "+name+" AS "+st.sql)
		require.NoError(s, err)
	}
	return c
}

// backlog enqueues 200 jobs to each of 100 groups.
func (s *stage) backlog() {
	s.Helper()
	for range 200 {
		s.crowd(100)
	}
	s.exec("INSERT INTO pgfifo.queue_groups SELECT DISTINCT queue, group_id FROM pgfifo.jobs ON CONFLICT DO NOTHING")
}

func TestHotStatementsUseTheKeys(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	kept := s.planner() // its plans are made when the tables are empty
	check := func(when string) {
		t.Helper()
		for _, c := range []*pgx.Conn{kept, s.planner()} {
			for name := range hotStatements {
				for _, scan := range explain(t, c, name, "COSTS OFF").scans() {
					require.Contains(t, []string{
						"jobs by jobs_pkey", "jobs by Tid Scan", "queue_groups by queue_groups_pkey",
						"pauses by pauses_pkey", "attempt_marks by attempt_marks_pkey",
						indexes[name],
					}, scan, "%s, %s", name, when)
				}
			}
		}
	}
	check("empty")
	s.exec("ANALYZE pgfifo.jobs, pgfifo.queue_groups, pgfifo.pauses")
	check("empty and analyzed")
	s.backlog()
	check("a backlog, analyzed when it was empty")
	s.exec("ANALYZE pgfifo.jobs, pgfifo.queue_groups, pgfifo.pauses")
	check("a backlog, analyzed")
	s.exec("DELETE FROM pgfifo.jobs")
	check("drained, analyzed when it was full")
}

// claim.sql reads as few pages of a long backlog as of a short one, whatever the plan was made for.
func TestClaimCostsTheSameAtAnyBacklog(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.planner()
	pages := func() int {
		t.Helper()
		_, err := c.Exec(t.Context(), beginSQL)
		require.NoError(t, err)
		defer func() {
			_, err := c.Exec(t.Context(), "COMMIT")
			require.NoError(t, err)
		}()
		_, err = c.Exec(t.Context(), "EXECUTE lock ("+hotStatements["lock"].args+")")
		require.NoError(t, err)
		explain(t, c, "claim", "ANALYZE, BUFFERS, TIMING OFF") // the first one reads catalogs
		p := explain(t, c, "claim", "ANALYZE, BUFFERS, TIMING OFF")
		require.Positive(t, p.Hit+p.Read)
		return p.Hit + p.Read
	}
	s.crowd(100)
	s.exec("INSERT INTO pgfifo.queue_groups SELECT DISTINCT queue, group_id FROM pgfifo.jobs")
	short := pages()
	s.backlog()
	s.exec("VACUUM ANALYZE pgfifo.jobs")
	require.LessOrEqual(t, pages(), short+8) // the index is a level or two higher, and is read three times
}

// None of them reads more pages per group when others are paused or idle by the thousand, although their plans were
// made when there were none.
func TestHotStatementsReadWholeKeys(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := s.planner()
	pages := func(name string) int {
		t.Helper()
		_, err := c.Exec(t.Context(), beginSQL+"; EXECUTE lockmany ("+hotStatements["lockmany"].args+")")
		require.NoError(t, err)
		defer func() {
			_, err := c.Exec(t.Context(), "COMMIT")
			require.NoError(t, err)
		}()
		explain(t, c, name, "ANALYZE, BUFFERS, TIMING OFF") // the first one reads catalogs
		p := explain(t, c, name, "ANALYZE, BUFFERS, TIMING OFF")
		return p.Hit + p.Read
	}
	s.crowd(100)
	s.exec("INSERT INTO pgfifo.queue_groups SELECT DISTINCT queue, group_id FROM pgfifo.jobs")
	few := make(map[string]int)
	for name := range hotStatements {
		few[name] = pages(name)
		require.Positive(t, few[name], name)
	}
	s.exec("INSERT INTO pgfifo.queue_groups SELECT $1, 'idle' || n FROM generate_series(1, 5000) n", queue)
	s.exec("INSERT INTO pgfifo.pauses (queue, group_id) SELECT $1, 'paused' || n FROM generate_series(1, 5000) n",
		queue)
	for name := range hotStatements {
		groups := map[string]int{
			"lock": 1, "lockmany": 2, "ahead": 1, "claim": 1, "batch": 1, "many": 2, "candidates": 100, "adjacent": 100,
			"new": 100, "due": 1, "probe": 2, "firsts": 1,
		}[name]
		require.LessOrEqual(t, pages(name), few[name]+10*groups+8, name)
	}
}
