package groups

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/schema"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	queue   = "q"
	patient = 30 * time.Second // how long anything may take that should happen soon
	often   = 2 * time.Millisecond
)

func group(id string) Key { return Key{queue, id} }

// A stage is one test's database.
type stage struct {
	*testing.T
	url  string
	pool *pgxpool.Pool
	name schema.Name
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return stageAt(t, pgtest.URL(t))
}

func stageAt(t *testing.T, url string) *stage {
	t.Helper()
	return &stage{T: t, url: url, pool: pgtest.Connect(t, url)}
}

func (s *stage) exec(sql string, args ...any) {
	s.Helper()
	_, err := s.pool.Exec(s.Context(), sql, args...)
	require.NoError(s, err)
}

// alter changes a setting of the database, for connections made from now on.
func (s *stage) alter(setting string) {
	s.Helper()
	s.exec("DO $$ BEGIN EXECUTE format($q$ALTER DATABASE %I SET " + setting + "$q$, current_database()); END $$")
	s.pool.Reset()
}

func one[T any](s *stage, sql string, args ...any) T {
	s.Helper()
	rows, _ := s.pool.Query(s.Context(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(s, err)
	return v
}

func column[T any](s *stage, sql string, args ...any) []T {
	s.Helper()
	rows, _ := s.pool.Query(s.Context(), sql, args...)
	v, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(s, err)
	return v
}

// statement reads one of package fifo's, which cannot be imported here.
func (s *stage) statement(file string) string {
	s.Helper()
	sql, err := os.ReadFile("../fifo/sql/" + file + ".sql")
	require.NoError(s, err)
	return s.name.Qualify(string(sql))
}

// enqueue adds n jobs to each of the groups, in turn, and returns their ids. It makes the groups' rows too.
func (s *stage) enqueue(n int, ids ...string) []int64 {
	s.Helper()
	jobs := column[int64](s, s.name.Qualify(`
		INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, g.id, '' FROM generate_series(1, $3::integer) i, unnest($2::text[]) WITH ORDINALITY g (id, n)
		ORDER BY i, g.n RETURNING id`), queue, ids, n)
	queues := make([]string, len(ids))
	for i := range queues {
		queues[i] = queue
	}
	s.exec(s.name.Qualify(ensureSQL), queues, ids)
	return jobs
}

// locked returns which rows somebody has locked: groups by their ids, jobs as "group/job". It locks the others for a
// moment, and so overwrites what evidence they bear.
func (s *stage) locked() []string {
	s.Helper()
	var locked []string
	for _, all := range []string{
		"SELECT group_id FROM pgfifo.queue_groups",
		"SELECT group_id || '/' || id FROM pgfifo.jobs",
	} {
		free := column[string](s, s.name.Qualify(all)+" FOR NO KEY UPDATE SKIP LOCKED")
		for _, row := range column[string](s, s.name.Qualify(all)+" ORDER BY 1") {
			if !slices.Contains(free, row) {
				locked = append(locked, row)
			}
		}
	}
	return locked
}

// dialer returns one whose lanes know how to settle.
func (s *stage) dialer(session Session) *Dialer {
	s.Helper()
	db := sql.OpenDB(Lending(stdlib.GetPoolConnector(s.pool)))
	db.SetMaxIdleConns(0)
	s.Cleanup(func() { _ = db.Close() })
	return &Dialer{
		DB: bun.NewDB(db, pgdialect.New()), Pool: s.pool.Config(), Control: s.pool, Schema: s.name,
		Name: "lane of " + s.Name(), Session: session,
		Statements: map[string]string{
			"succeed": "DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3",
			"retry":   s.statement("retry"),
		},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func (s *stage) lane() *Lane {
	s.Helper()
	return s.dial(s.dialer(Session{}))
}

func (s *stage) dial(d *Dialer) *Lane {
	s.Helper()
	l, err := d.Dial(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { _ = l.Close() })
	return l
}

func settle(h *Hold, statement string, more ...string) []Call {
	args := [][]byte{[]byte(h.Queue), []byte(h.GroupID), appendInt(h.ID)}
	for _, m := range more {
		args = append(args, []byte(m))
	}
	return []Call{{Statement: statement, Args: args}}
}

func succeed(h *Hold) []Call { return settle(h, "succeed") }

func retryIn(h *Hold, d time.Duration) []Call {
	return retry(h, strconv.FormatInt(d.Microseconds(), 10))
}

// retry settles a job that has failed, with a delay in microseconds.
func retry(h *Hold, delay string) []Call {
	return settle(h, "retry", strconv.Itoa(h.Attempts), delay, "error", "on purpose", "", "lane", "10")
}

// claim makes the lane hold the group, which must be free.
func (s *stage) claim(l *Lane, id string) *Hold {
	s.Helper()
	h, settled, err := l.Step(s.Context(), nil, &Request{Key: group(id)})
	require.NoError(s, err)
	require.True(s, settled)
	require.NotNil(s, h, "group %s cannot be claimed", id)
	return h
}

// end is the step that ends the lane's transaction.
func (s *stage) end(l *Lane, calls ...Call) {
	s.Helper()
	h, settled, err := l.Step(s.Context(), calls, nil)
	require.NoError(s, err)
	require.True(s, settled)
	require.Nil(s, h)
}

// misses reports whether a new claim of the group finds nothing, and leaves nothing locked.
func (s *stage) misses(l *Lane, id string) bool {
	s.Helper()
	h, _, err := l.Step(s.Context(), nil, &Request{Key: group(id)})
	require.NoError(s, err)
	s.end(l)
	return h == nil
}

// A session is one connection that a test steps by hand.
type session struct {
	*stage
	*pgx.Conn
	steps sync.WaitGroup
}

func (s *stage) session() *session {
	s.Helper()
	c := &session{stage: s, Conn: pgtest.Conn(s.T, s.url)}
	s.Cleanup(c.steps.Wait)
	return c
}

func (c *session) do(sql string, args ...any) {
	c.Helper()
	_, err := c.Exec(c.Context(), sql, args...)
	require.NoError(c, err)
}

// waits reports whether the statement has to wait for another session's lock. If so it is not executed, and its
// transaction has failed.
func (c *session) waits(sql string, args ...any) bool {
	c.Helper()
	c.do("SET lock_timeout = '100ms'")
	_, err := c.Exec(c.Context(), sql, args...)
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		return true
	}
	require.NoError(c, err)
	return false
}

// start begins a statement that will not end by itself, and returns when it is under way.
func (c *session) start(sql string, args ...any) (done <-chan error) {
	c.Helper()
	ch := make(chan error, 1)
	c.steps.Go(func() {
		_, err := c.Exec(context.WithoutCancel(c.Context()), sql, args...)
		ch <- err
	})
	c.until(func() bool { return c.active(c.PgConn().PID()) })
	return ch
}

func (s *stage) active(pid uint32) bool {
	return one[bool](s, "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND state = 'active'", pid)
}

// blocked reports whether the session waits for a lock of another.
func (s *stage) blocked(pid uint32) bool {
	return one[bool](s, "SELECT cardinality(pg_blocking_pids($1)) > 0", pid)
}

// until waits for a condition that must come true soon. It is checked by the test's own goroutine.
func (s *stage) until(cond func() bool) {
	s.Helper()
	tick := time.NewTicker(often)
	defer tick.Stop()
	deadline := time.NewTimer(patient)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			require.FailNow(s, "it did not happen")
		}
	}
}

// terminate ends a session from the server's side, and waits for its end.
func (s *stage) terminate(pid uint32) {
	s.Helper()
	s.exec("SELECT pg_terminate_backend($1)", pid)
	s.until(func() bool { return one[bool](s, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", pid) })
}

// mutate returns the statement with one thing broken.
func mutate(t *testing.T, sql, good, bad string) string {
	t.Helper()
	broken := strings.Replace(sql, good, bad, 1)
	require.NotEqual(t, sql, broken, "the statement has no %q", good)
	return broken
}

// request is for these groups together.
func request(ids ...string) *Request {
	r := &Request{Key: group(ids[0])}
	for i, id := range ids[1:] {
		r.With = append(r.With, Request{Key: group(id), N: i + 1})
	}
	return r
}
