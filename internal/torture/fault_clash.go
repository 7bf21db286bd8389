package torture

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

const (
	// clashFor is how long dead letters are in the way of others.
	clashFor = 2500 * time.Millisecond
	// mostClashes is how many there are at once.
	mostClashes = 32
)

// doPlanted is what a dead letter says that is in the way.
const doPlanted = "planted"

// injectClash has jobs fail for good for which there are dead letters already, as after a partial restore, so that it
// may not be possible to record that: as many as there are lanes. Half of them are tried again, and their failures
// recorded; the others have no attempts left. Their groups may wait, until somebody has put that right; no other group
// may.
func injectClash(ctx context.Context, r *run, _ *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
	r.clash.Lock() // one after the other: the record says from when until when
	defer r.clash.Unlock()
	planted, err := json.Marshal(task{N: -1, Do: doPlanted})
	if err != nil {
		return err
	}
	for range min(r.cfg.Processes*r.cfg.Lanes, mostClashes) {
		group := r.spare()
		id, err := r.send(ctx, howClash, doLetter, group, 300*time.Millisecond)
		if err != nil {
			return errNotNow
		}
		_, err = r.pool.Exec(ctx, `INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
			VALUES ($1, $2, $3, $4, 1, now())`, queuePlain, groupID(group), id, planted)
		if err != nil {
			return err
		}
		_, _ = r.send(ctx, howClash, "", group, 0) // behind it
	}
	r.mark(faultClash, "", 0, "")
	_ = pause.For(ctx, clashFor)
	_, err = r.pool.Exec(ctx, "DELETE FROM pgfifo.dead_letters WHERE payload = $1", planted)
	r.mark("cleared", "", 0, "")
	return err
}
