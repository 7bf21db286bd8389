package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// named returns the names of so many queues.
func named(n int) (queues []string) {
	for i := range n {
		queues = append(queues, fmt.Sprintf("q%03d", i))
	}
	return queues
}

// delay enqueues jobs of a queue, each of a group of its own, which may not run for an hour.
func (s *stage) delay(queue string, n int) {
	s.Helper()
	s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
		SELECT $1::text, $1::text || '/' || i, '', statement_timestamp() + interval '1 hour'
		FROM generate_series(1, $2::integer) i`, queue, n)
}

// due makes the delayed jobs of a queue due at some time.
func (s *stage) due(queue string, at time.Time) {
	s.Helper()
	s.Exec("UPDATE pgfifo.jobs SET run_at = $2 WHERE queue = $1", queue, at)
}

// A look takes as many round trips beside a thousand queues as beside one.
func TestLooksReadAllQueuesAtOnce(t *testing.T) {
	s := newStage(t)
	queues := named(1000)
	_, scout := s.scout(time.Second, queues...)
	cfg, err := pgx.ParseConfig(s.URL)
	require.NoError(t, err)
	traced := new(pgtest.Tracer)
	cfg.Tracer = traced
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // the test is over
	s.delay(queues[400], 1)
	s.look(scout, conn)
	require.Empty(t, s.found(scout, conn))

	s.due(queues[400], time.Now())
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'new', '')", queues[900])
	before := traced.Queries.Load()
	require.ElementsMatch(t, []string{queues[400] + "/1", "new"}, s.found(scout, conn))
	require.Less(t, traced.Queries.Load()-before, int64(16))
}

// A full answer may end in the middle of a queue. The look goes on there, and then with the other queues, from where
// each of them begins, also if there is no room any more in the one that was left.
func TestLooksGoOnInTheMiddleOfAQueue(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"with room": true, "without": false}, func(t *testing.T, room bool) {
		s := newStage(t)
		queues := named(4)
		counts := []int{10, tuning.Rows + 20, 7, tuning.Rows + 5}
		for i, q := range queues {
			s.delay(q, counts[i])
		}
		_, scout, conn := s.looking(time.Second, queues...)
		require.Empty(t, s.found(scout, conn))
		now := time.Now()
		for i, q := range queues {
			s.due(q, now.Add(-time.Duration(i)*slack/8)) // a cursor in one is behind all jobs of the next
		}
		turns := scout.Turns
		require.NoError(t, scout.lookOn(t.Context(), conn, turns.View()))
		require.Equal(t, 1, scout.look.pass.queue)
		if !room {
			counts[1] = tuning.Rows - counts[0]
		}
		for scout.look.pass != nil {
			view := turns.View()
			if !room {
				view.rooms[1].room = 0
			}
			require.NoError(t, scout.lookOn(t.Context(), conn, view))
		}
		found := drained(turns)
		for i, q := range queues {
			mine := slices.DeleteFunc(slices.Clone(found), func(id string) bool { return !strings.HasPrefix(id, q) })
			require.Len(t, mine, counts[i], q)
		}
	})
}

// A full answer costs no probes of the queues behind it, whatever the planner believes.
func TestDueStopsEarly(t *testing.T) {
	p := plans(t)
	queues := named(500)
	args := "'{" + strings.Join(queues, ",") + "}', now(), 0, now(), now() + interval '2 hours', "
	p.Hot = map[string]pgtest.Hot{
		"few":  {SQL: statement("due"), Args: args + "10"},
		"many": {SQL: statement("due"), Args: args + "10000"},
	}
	kept := p.Prepare() // its plans are made when the table is empty
	p.Pages(kept, "few")
	p.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
		SELECT q, 'g' || i, '', statement_timestamp() + interval '1 hour'
		FROM unnest($1::text[]) q, generate_series(1, 20) i`, queues)
	check := func(when string) {
		t.Helper()
		for _, c := range []*pgx.Conn{kept, p.Prepare()} {
			require.Greater(t, p.Pages(c, "many"), len(queues), when)
			require.Less(t, p.Pages(c, "few"), 50, when)
		}
	}
	check("not analyzed")
	p.Exec("ANALYZE pgfifo.jobs")
	check("analyzed")
}
