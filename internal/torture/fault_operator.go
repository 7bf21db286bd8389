package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// What an operator does, to the jobs of one group that nobody works.
const (
	lookSQL = `SELECT count(*) FROM (
		SELECT FROM pgfifo.jobs WHERE queue = ? AND group_id = ? FOR UPDATE SKIP LOCKED) waiting`
	dropSQL = `WITH gone AS (
		DELETE FROM pgfifo.jobs WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM pgfifo.jobs WHERE queue = ? AND group_id = ? FOR UPDATE SKIP LOCKED)) RETURNING id)
		SELECT count(*) FROM gone`
)

// injectOperator is no fault: an operator locks or deletes jobs that wait, or purges their groups, looks at what that
// would be, and rolls it back. Meanwhile workers try to claim those groups, as more is enqueued to them. No job has
// been tried by that, and none may be charged.
func injectOperator(ctx context.Context, r *run, rng *rand.Rand) error {
	tx, err := r.client.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var waiting []struct {
		groups.Key
		Payload []byte
	}
	err = tx.NewRaw(`SELECT * FROM (SELECT DISTINCT ON (queue, group_id) queue, group_id, payload FROM pgfifo.jobs
		WHERE group_id NOT LIKE 'z%') j
		ORDER BY random() LIMIT 8`).Scan(ctx, &waiting)
	if err != nil {
		return err
	}
	var touched []int32
	note := ""
	for _, w := range waiting {
		what := []string{"purge", "delete", "lock"}[rng.IntN(3)]
		n, err := r.touch(ctx, tx, what, w.Key)
		if err != nil {
			return err
		}
		t, err := readTask(w.Payload)
		if err != nil {
			return err
		}
		if group, err := groupFor(w.Queue, w.GroupID, t); err == nil && n > 0 {
			touched = append(touched, group)
			note += fmt.Sprintf(" %s of %d jobs of %s/%s", what, n, w.Queue, groupID(group))
		}
	}
	if len(touched) == 0 {
		return errNotNow
	}
	r.mark(faultOperator, "", 0, note)
	r.probe(ctx, touched)
	return pause.For(ctx, 50*time.Millisecond+time.Duration(rng.Int64N(int64(150*time.Millisecond))))
}

// touch does one of the things to the waiting jobs of a group, and returns how many those were.
func (r *run) touch(ctx context.Context, tx bun.Tx, what string, key groups.Key) (n int, err error) {
	if what == "purge" {
		return r.client.Queue(key.Queue).Group(key.GroupID).In(tx).Purge(ctx)
	}
	sql := lookSQL
	if what == "delete" {
		sql = dropSQL
	}
	err = tx.NewRaw(sql, key.Queue, key.GroupID).Scan(ctx, &n)
	return n, err
}
