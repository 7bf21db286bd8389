package fifo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A page reads one range of the index, wherever it is, also with the plan that is made for any parameters.
func TestPagesReadOneRange(t *testing.T) {
	t.Parallel()
	conn := crowded(t)
	q := (&Client{}).Queue("q")
	last := position{groups.Key{Queue: "q", GroupID: "g1"}, 39990}
	for _, x := range []struct {
		scope Scope
		after position
	}{
		{(&Client{}).all(), position{}},
		{(&Client{}).all(), last},
		{q, position{}},
		{q, last},
		{q.Group("g1"), position{}},
		{q.Group("g1"), last},
	} {
		from, some := x.scope.from(x.after, 3)
		require.Equal(t, 3, some)
		for what, statement := range map[string]struct {
			most int // blocks
			sql  string
			args []any
		}{
			"jobs": {
				12,
				jobsSQL + placeSQL[x.scope.level] + " ORDER BY queue, group_id, id LIMIT $4",
				[]any{from.Queue, from.GroupID, from.ID, 3},
			},
			"groups": {60, statement("groups"), []any{
				from.Queue, from.GroupID, from.ID, x.scope.queueOrNull(), x.scope.groupOrNull(), 3, 3, false, false,
			}},
		} {
			read := blocksOf(t, conn, statement.sql, statement.args)
			require.Less(t, read, statement.most, "%s of %v after %v", what, x.scope, x.after)
		}
	}
}

// Lists put times in range, and may be made with parallel workers all the same.
func TestListsMayBeParallel(t *testing.T) {
	t.Parallel()
	conn := crowded(t)
	ctx := t.Context()
	for _, set := range []string{
		"max_parallel_workers_per_gather = 2", "parallel_setup_cost = 0", "parallel_tuple_cost = 0",
		"min_parallel_table_scan_size = 0",
	} {
		_, err := conn.Exec(ctx, "SET "+set)
		require.NoError(t, err)
	}
	rows, err := conn.Query(ctx, "EXPLAIN "+jobsSQL+" payload = ''")
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, strings.Join(plan, "\n"), "Gather")
}

// crowded returns a connection to a database with 60,000 jobs, which makes plans for any parameters.
func crowded(t *testing.T) *pgx.Conn {
	t.Helper()
	pool := pgtest.Pool(t)
	ctx := t.Context()
	_, err := pool.Exec(ctx, `INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT q, 'g' || i % 3, '' FROM unnest('{p,q,r}'::text[]) q, generate_series(1, 20000) i`)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, "VACUUM ANALYZE pgfifo.jobs")
	require.NoError(t, err)
	conn := pgtest.Conn(t, pool.Config().ConnString())
	_, err = conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan")
	require.NoError(t, err)
	return conn
}

// A job is found by its id, and whether there is one by an entry of the index, however many others there are.
func TestOneJobReadsOneRow(t *testing.T) {
	t.Parallel()
	conn := crowded(t)
	for _, group := range []any{nil, "g1"} {
		for what, statement := range map[string]struct {
			sql  string
			args []any
		}{
			"find":  {statement("job"), []any{"q", group, 25000, 3}},
			"none":  {statement("job"), []any{"q", group, 1 << 40, 3}},
			"some":  {statement("any"), []any{"q", "a", "z"}},
			"lock":  {lockJobSQL, []any{"q", "g1", 25000}},
			"retry": {statement("retry_now"), []any{"q", "g1", 25000}},
			"bury":  {statement("take_out"), []any{"q", "g1", 25001, "", 3}},
		} {
			require.Less(t, blocksOf(t, conn, statement.sql, statement.args), 80, what)
		}
	}
}

// The names of queues are found by an entry of the index each, however many jobs there are.
func TestQueuesReadOneRowEach(t *testing.T) {
	t.Parallel()
	conn := crowded(t)
	_, err := conn.Exec(t.Context(), `INSERT INTO pgfifo.dead_letters
			(queue, group_id, id, payload, attempts, enqueued_at)
		SELECT queue, group_id, id, payload, 1, enqueued_at FROM pgfifo.jobs`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "VACUUM ANALYZE pgfifo.dead_letters")
	require.NoError(t, err)
	require.Less(t, blocksOf(t, conn, statement("queues"), nil), 80)
}

// blocksOf returns how many blocks a statement reads.
func blocksOf(t *testing.T, conn *pgx.Conn, sql string, args []any) int {
	t.Helper()
	literals := make([]string, len(args))
	for i, arg := range args {
		literals[i] = "NULL"
		if arg != nil {
			literals[i] = fmt.Sprintf("'%v'", arg)
		}
	}
	_, err := conn.Exec(t.Context(), "PREPARE list AS "+sql)
	require.NoError(t, err)
	call := "list"
	if len(args) > 0 {
		call += " (" + strings.Join(literals, ", ") + ")"
	}
	var text []byte
	require.NoError(t, conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE "+call,
		pgx.QueryExecModeSimpleProtocol).Scan(&text))
	_, err = conn.Exec(t.Context(), "DEALLOCATE list")
	require.NoError(t, err)
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
