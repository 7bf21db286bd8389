package lease

import (
	"context"
	"database/sql"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const queue = pgtest.Queue

func group(id string) groups.Key { return groups.Key{Queue: queue, GroupID: id} }

// A stage is one test's database.
type stage struct{ *pgtest.DB }

// newStage has the test run beside others.
func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return &stage{pgtest.New(t)}
}

// again returns the database, emptied, for the next of several tests that run one after the other. Whoever is still
// ending a session of the last one is waited for.
func (s *stage) again(t *testing.T) *stage {
	t.Helper()
	db := *s.DB
	db.T = t
	for _, table := range []string{"jobs", "queue_groups", "queues", "slots", "pauses", "attempt_marks"} {
		db.Exec("DELETE FROM pgfifo." + table)
	}
	db.Exec("SELECT setval(pg_get_serial_sequence('pgfifo.jobs', 'id'), 1, false)")
	return &stage{&db}
}

// dialer returns one whose lanes know how to settle.
func (s *stage) dialer(bounds Bounds) *Dialer {
	s.Helper()
	db := sql.OpenDB(Lending(s.Pool))
	db.SetMaxIdleConns(0)
	s.Cleanup(func() { _ = db.Close() })
	return &Dialer{
		DB: bun.NewDB(db, pgdialect.New()), Pool: s.Pool.Config(), Control: s.Pool, Schema: s.Schema,
		Name: "lane of " + s.Name(), Bounds: bounds,
		Statements: map[string]string{
			"succeed": "DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3",
			"retry":   s.Statement("retry"),
			"behind":  s.Statement("succeed_batch"),
		},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func (s *stage) lane() *Lane {
	s.Helper()
	return s.dial(s.dialer(Bounds{}))
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
	return []Call{{Statement: statement, Args: args, Job: h.ID}}
}

func succeed(h *Hold) []Call {
	calls := settle(h, "succeed")
	calls[0].Completes = true
	return calls
}

func retryIn(h *Hold, d time.Duration) []Call {
	return retry(h, strconv.FormatInt(d.Microseconds(), 10))
}

// retry settles a job that has failed, with a delay in microseconds.
func retry(h *Hold, delay string) []Call {
	return settle(h, "retry", strconv.Itoa(h.Attempts), delay, "error", "on purpose", "", "lane", "10")
}

// held returns a lane that holds the first of n jobs of group a, on a stage of its own.
func held(t *testing.T, n int) (s *stage, l *Lane, h *Hold) {
	t.Helper()
	s = newStage(t)
	s.Enqueue(n, "a")
	l = s.lane()
	return s, l, s.claim(l, "a")
}

// A stepper is a Lane or a Borrower.
type stepper interface {
	Step(ctx context.Context, calls []Call, next *Request) (*Hold, bool, error)
	Lost(ctx context.Context) ([]*Held, error)
}

// step returns what a step has claimed, or nil.
func (s *stage) step(l stepper, calls []Call, next *Request) *Hold {
	s.Helper()
	h, settled, err := l.Step(s.Context(), calls, next)
	require.NoError(s, err)
	require.True(s, settled)
	return h
}

// unsettled returns the error of a step that commits nothing, and claims nothing.
func (s *stage) unsettled(l stepper, calls []Call, next *Request) error {
	s.Helper()
	h, settled, err := l.Step(s.Context(), calls, next)
	require.Error(s, err)
	require.False(s, settled)
	require.Nil(s, h)
	return err
}

// found returns the attempts that a claim has found lost.
func (s *stage) found(l stepper) []*Held {
	s.Helper()
	list, err := l.Lost(s.Context())
	require.NoError(s, err)
	return list
}

// beside does something beside the test, and returns what becomes of it.
func beside(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// claim makes the lane hold the group, which must be free.
func (s *stage) claim(l *Lane, id string) *Hold {
	s.Helper()
	h := s.step(l, nil, &Request{Key: group(id)})
	require.NotNil(s, h, "group %s cannot be claimed", id)
	return h
}

// end is the step that ends the lane's transaction.
func (s *stage) end(l *Lane, calls ...Call) {
	s.Helper()
	require.Nil(s, s.step(l, calls, nil))
}

// limit gives the queue a limit.
func (s *stage) limit(n int) {
	s.Helper()
	s.Exec("INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, max_running) VALUES ($1, 1, false, $2) "+
		"ON CONFLICT (queue) DO UPDATE SET max_running = EXCLUDED.max_running", queue, n)
	s.Exec("INSERT INTO pgfifo.slots (queue, n) SELECT $1, generate_series(1, $2::integer) ON CONFLICT DO NOTHING",
		queue, n)
	s.Exec("INSERT INTO pgfifo.pauses (queue, limited) VALUES ($1, true) ON CONFLICT DO NOTHING", queue)
}

// misses reports whether a new claim of the group finds nothing, and leaves nothing locked.
func (s *stage) misses(l *Lane, id string) bool {
	s.Helper()
	h := s.step(l, nil, &Request{Key: group(id)})
	s.end(l)
	return h == nil
}

// request is for these groups together.
func request(ids ...string) *Request {
	r := &Request{Key: group(ids[0])}
	for i, id := range ids[1:] {
		r.With = append(r.With, Request{Key: group(id), N: i + 1})
	}
	return r
}

// groupLimit lets so many jobs of each group run at once.
func (s *stage) groupLimit(n int, groups ...string) {
	s.Helper()
	s.limit(0)
	s.Exec("UPDATE pgfifo.queues SET group_limit = $2 WHERE queue = $1", queue, n)
	s.Exec("INSERT INTO pgfifo.group_slots (queue, group_id, n) SELECT $1, g, n FROM unnest($3::text[]) g, "+
		"generate_series(1, $2::integer) n ON CONFLICT DO NOTHING", queue, n, groups)
}

// groupSlot claims the next job of a group of which several may run at once.
func (s *stage) groupSlot(l *Lane, calls []Call, id string) *Hold {
	s.Helper()
	return s.step(l, calls, &Request{Key: group(id), Slot: true, GroupSlot: true})
}

// start claims the next job and marks its attempt.
func (s *stage) start(l *Lane, id string) *Hold {
	s.Helper()
	h := s.groupSlot(l, nil, id)
	require.NotNil(s, h, "no job of %s to start", id)
	require.NoError(s, l.Mark(s.Context(), []*Held{&h.Held}))
	return h
}
