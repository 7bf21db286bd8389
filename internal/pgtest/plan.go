package pgtest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A Hot statement is one that must stay cheap, whatever is in the tables and whatever the planner believes.
type Hot struct {
	SQL, Args string
	Groups    int    // how many it reads, of 100
	Index     string // that no other statement may read, or ""
}

// Plans looks at the plans of statements on connections of the library's, by name.
type Plans struct {
	*DB
	Connect func() (*pgx.Conn, error)
	Begin   string // what begins the transaction that they are for
	Hot     map[string]Hot
}

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

// Prepare returns a connection on which the statements are prepared.
func (p *Plans) Prepare() *pgx.Conn {
	p.Helper()
	c, err := p.Connect()
	require.NoError(p, err)
	p.Cleanup(func() { _ = c.Close(context.WithoutCancel(p.Context())) })
	for name, st := range p.Hot {
		_, err := c.Exec(p.Context(), "PREPARE "+name+" AS "+st.SQL)
		require.NoError(p, err)
	}
	return c
}

func (p *Plans) explain(c *pgx.Conn, name, options string) plan {
	p.Helper()
	var text string
	require.NoError(p, c.QueryRow(p.Context(),
		"EXPLAIN ("+options+", FORMAT JSON) EXECUTE "+name+" ("+p.Hot[name].Args+")").Scan(&text))
	var plans []struct{ Plan plan }
	require.NoError(p, json.Unmarshal([]byte(text), &plans))
	return plans[0].Plan
}

// Pages returns how many pages a statement reads, in a transaction of its own.
func (p *Plans) Pages(c *pgx.Conn, name string) int {
	p.Helper()
	_, err := c.Exec(p.Context(), p.Begin)
	require.NoError(p, err)
	defer func() {
		_, err := c.Exec(p.Context(), "COMMIT")
		require.NoError(p, err)
	}()
	p.explain(c, name, "ANALYZE, BUFFERS, TIMING OFF") // the first one reads catalogs
	read := p.explain(c, name, "ANALYZE, BUFFERS, TIMING OFF")
	require.Positive(p, read.Hit+read.Read, name)
	return read.Hit + read.Read
}

// Backlog enqueues 200 jobs to each of 100 groups.
func (p *Plans) Backlog() {
	p.Helper()
	for range 200 {
		p.Crowd(100)
	}
	p.Rows()
}

// Rows makes the rows of all groups with jobs.
func (p *Plans) Rows() {
	p.Helper()
	p.Exec("INSERT INTO pgfifo.queue_groups SELECT DISTINCT queue, group_id FROM pgfifo.jobs ON CONFLICT DO NOTHING")
}

// UseTheKeys checks that the statements read the tables by their keys only, with or without statistics, whether these
// are true or not.
func (p *Plans) UseTheKeys() {
	p.Helper()
	kept := p.Prepare() // its plans are made when the tables are empty
	check := func(when string) {
		p.Helper()
		for _, c := range []*pgx.Conn{kept, p.Prepare()} {
			for name, st := range p.Hot {
				for _, scan := range p.explain(c, name, "COSTS OFF").scans() {
					require.Contains(p, []string{
						"jobs by jobs_pkey", "jobs by Tid Scan", "queue_groups by queue_groups_pkey",
						"pauses by pauses_pkey", "attempt_marks by attempt_marks_pkey",
						"queues by queues_pkey", "slots by slots_pkey", "group_slots by group_slots_pkey", st.Index,
					}, scan, "%s, %s", name, when)
				}
			}
		}
	}
	check("empty")
	p.Exec("ANALYZE pgfifo.jobs, pgfifo.queue_groups, pgfifo.pauses")
	check("empty and analyzed")
	p.Backlog()
	check("a backlog, analyzed when it was empty")
	p.Exec("ANALYZE pgfifo.jobs, pgfifo.queue_groups, pgfifo.pauses")
	check("a backlog, analyzed")
	p.Exec("DELETE FROM pgfifo.jobs")
	check("drained, analyzed when it was full")
}

// ReadWholeKeys checks that none reads more pages of each group when others are paused or idle by the thousand,
// although its plan was made when there were none.
func (p *Plans) ReadWholeKeys() {
	p.Helper()
	c := p.Prepare()
	p.Crowd(100)
	p.Rows()
	few := make(map[string]int)
	for name := range p.Hot {
		few[name] = p.Pages(c, name)
	}
	p.Exec("INSERT INTO pgfifo.queue_groups SELECT $1, 'idle' || n FROM generate_series(1, 5000) n", Queue)
	p.Exec("INSERT INTO pgfifo.pauses (queue, group_id) SELECT $1, 'paused' || n FROM generate_series(1, 5000) n",
		Queue)
	for name, st := range p.Hot {
		require.LessOrEqual(p, p.Pages(c, name), few[name]+10*st.Groups+8, name)
	}
}
