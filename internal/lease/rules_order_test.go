package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// brokenClaimSQL is the obvious statement. It takes the parameters of claim.sql and does without the hint.
const brokenClaimSQL = `
SELECT j.id, j.group_id FROM pgfifo.jobs j JOIN pgfifo.queue_groups g USING (queue, group_id)
WHERE j.queue = $1 AND $2::text <> '' AND j.id > $3 AND (j.run_at IS NULL OR j.run_at <= statement_timestamp())
ORDER BY j.id LIMIT 1 FOR UPDATE SKIP LOCKED`

// A shape is a way to claim: a statement that begins with the job's id, behind one that locks the group, if it is not
// empty.
type shape struct {
	lock, sql string
	hints     bool // it claims the group that it is told to; else it answers which, in the second column
}

var (
	rightShape  = shape{statement("lock"), statement("claim"), true}
	brokenShape = shape{"", brokenClaimSQL, false}
)

// claim returns what it claimed, or zeros. A head that is not due is not claimed.
func (f shape) claim(ctx context.Context, c *pgx.Conn, id string) (string, int64, error) {
	if f.lock != "" {
		if _, err := c.Exec(ctx, f.lock, queue, id); err != nil {
			return "", 0, err
		}
	}
	rows, _ := c.Query(ctx, f.sql, queue, id, int64(0))
	row, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", 0, nil
	case err != nil:
		return "", 0, err
	case !f.hints:
		id = row[1].(string)
	case row[5] != nil && row[5].(time.Time).After(row[6].(time.Time)):
		return "", 0, nil
	}
	return id, row[0].(int64), nil
}

// A referee sees jobs begin and end, and notes what must not be.
type referee struct {
	mu       sync.Mutex
	left     map[string][]int64 // jobs by group, in order
	running  map[string]int64
	n        int
	Overlaps []string
	Overtook []string
}

func newReferee(ids []string, jobs []int64) *referee {
	r := &referee{left: make(map[string][]int64), running: make(map[string]int64), n: len(jobs)}
	for i, job := range jobs {
		id := ids[i%len(ids)]
		r.left[id] = append(r.left[id], job)
	}
	return r
}

func (r *referee) began(id string, job int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.running[id]; ok {
		r.Overlaps = append(r.Overlaps, fmt.Sprintf("%s: %d beside %d", id, job, other))
	}
	if first := r.left[id]; len(first) > 0 && first[0] != job {
		r.Overtook = append(r.Overtook, fmt.Sprintf("%s: %d before %d", id, job, first[0]))
	}
	r.running[id] = job
}

// ended is told before the transaction ends: afterwards the next one may begin.
func (r *referee) ended(id string, job int64, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, id)
	if !done {
		return
	}
	for i, j := range r.left[id] {
		if j == job {
			r.left[id] = append(r.left[id][:i:i], r.left[id][i+1:]...)
			r.n--
			break
		}
	}
}

// hint returns a group that has jobs left, the i-th in some order, or "" if none has.
func (r *referee) hint(i int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		return ""
	}
	for k := 0; ; k++ {
		if id := fmt.Sprint("g", (i+k)%len(r.left)); len(r.left[id]) > 0 {
			return id
		}
	}
}

func (r *referee) violations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Overlaps) + len(r.Overtook)
}

// One worker on group x, another on y, and a third that comes when the first is done: no race is needed.
func overtaking(t *testing.T, f shape) *referee {
	s := newStage(t)
	s.Enqueue(1, "g0", "g0", "g1", "g0") // 1, 2 and 4 in g0, 3 in g1
	r := newReferee(nil, nil)
	r.left = map[string][]int64{"g0": {1, 2, 4}, "g1": {3}}
	a, b, c := s.Session(), s.Session(), s.Session()
	claim := func(c *pgtest.Session, id string) (string, int64) {
		id, job, err := f.claim(s.Context(), c.Conn, id)
		require.NoError(s, err)
		return id, job
	}
	for _, x := range []*pgtest.Session{a, b, c} {
		x.Do(beginSQL)
	}
	r.began(claim(a, "g0"))

	if id, job := claim(b, "g0"); job != 0 {
		r.began(id, job)
	} else {
		b.Do("COMMIT; " + beginSQL)
		r.began(claim(b, "g1"))
	}

	r.ended("g0", 1, true)
	a.Do("DELETE FROM pgfifo.jobs WHERE id = 1; COMMIT")
	r.began(claim(c, "g0"))
	require.Len(t, r.running, 2)
	return r
}

func TestClaimDoesNotOvertake(t *testing.T) {
	r := overtaking(t, rightShape)
	require.Empty(t, r.Overtook)
	require.Empty(t, r.Overlaps)
	require.Equal(t, map[string]int64{"g0": 2, "g1": 3}, r.running)
}

func TestJoinOvertakes(t *testing.T) {
	require.Equal(t, []string{"g0: 4 before 2"}, overtaking(t, brokenShape).Overtook)
}

// season lets 16 workers loose on 2,000 jobs, of which some fail and some are aborted. It ends early when enough is
// known against the shape.
func season(t *testing.T, f shape, enough int) *referee {
	s := newStage(t)
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = fmt.Sprint("g", i)
	}
	r := newReferee(ids, s.Enqueue(100, ids...))
	var eg errgroup.Group
	for w := range 16 {
		c := s.Session().Conn
		eg.Go(func() error {
			chance := rand.New(rand.NewPCG(uint64(w), 1))
			for r.violations() < enough {
				id := r.hint(chance.IntN(len(ids)))
				if id == "" {
					return nil
				}
				if err := game(s.Context(), c, f, r, id, chance.IntN(10)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, eg.Wait())
	return r
}

func game(ctx context.Context, c *pgx.Conn, f shape, r *referee, id string, luck int) error {
	if _, err := c.Exec(ctx, beginSQL); err != nil {
		return err
	}
	id, job, err := f.claim(ctx, c, id)
	end := "COMMIT"
	if err == nil && job != 0 {
		r.began(id, job)
		switch luck {
		case 0:
			_, err = c.Exec(ctx, "UPDATE pgfifo.jobs SET attempts = attempts + 1 WHERE queue = $1 AND group_id = $2 "+
				"AND id = $3", queue, id, job)
		case 1:
			_, err = c.Exec(ctx, "SELECT 1")
			end = "ROLLBACK"
		default:
			_, err = c.Exec(ctx, "DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3", queue, id,
				job)
		}
		r.ended(id, job, luck > 1)
	}
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, end)
	return err
}

func TestClaimKeepsOrder(t *testing.T) {
	r := season(t, rightShape, 1)
	require.Empty(t, r.Overtook)
	require.Empty(t, r.Overlaps)
	require.Zero(t, r.n, "jobs left")
}

func TestJoinBreaksOrder(t *testing.T) {
	require.NotEmpty(t, season(t, brokenShape, 20).Overtook)
}
