package torture

import (
	"context"
	"math/rand/v2"
	"slices"
)

// injectVacuum kills all worker processes at once, and has the server vacuum, freeze and write out everything before
// there are others: what could be read off the rows about attempts that died is gone then.
func injectVacuum(ctx context.Context, r *run, rng *rand.Rand) error {
	defer r.takeDown()()
	r.mu.Lock()
	all := slices.Clone(r.slots)
	r.mu.Unlock()
	r.linger(ctx, all[rng.IntN(len(all))])
	r.staff.Lock()
	defer r.staff.Unlock()
	r.mu.Lock()
	all = slices.Clone(r.slots)
	r.mu.Unlock()
	r.mark("idle", "", 0, "")
	defer func() { r.mark("staffed", "", 0, "") }()
	for _, p := range all {
		if !p.ended() {
			r.kill(p)
		}
	}
	const holding = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'w%' AND backend_xid IS NOT NULL`
	n := -1
	until(ctx, goneWithin, func() bool { return r.pool.QueryRow(ctx, holding).Scan(&n) == nil && n == 0 })
	for _, sql := range []string{"CHECKPOINT", "VACUUM (FREEZE) pgfifo.jobs", "VACUUM (FREEZE) pgfifo.queue_groups"} {
		if _, err := r.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	r.mark(faultVacuum, "", 0, "")
	return nil
}
