package torture

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// howProbe is how the harness itself sends messages: to groups that are held just then, and will be for a while.
const howProbe = "probe"

// probes is what the numbers of the harness's own messages are higher by.
const probes = 1 << 41

// probe sends messages to groups that are held, and may have more than one job.
func (r *run) probe(ctx context.Context, held []int32) {
	held = slices.DeleteFunc(held, func(group int32) bool { return group >= looseFrom })
	for _, group := range held[:min(len(held), 3)] {
		_, _ = r.send(ctx, howProbe, "", group, 0)
	}
}

// send sends a message of the harness, and returns the id of the job.
func (r *run) send(ctx context.Context, how, do string, group int32, delay time.Duration) (int64, error) {
	n := probes + r.probed.Add(1)
	m := task{N: n, Do: do}.message(group)
	m.Delay = delay
	if how == howClash && group%2 == 0 {
		m.MaxAttempts = 2
	}
	list := []string{fmt.Sprintf("%d:%d:%d:0", n, group, delay.Nanoseconds())}
	receipts, err := r.probes.enqueue(n, how, list, func() ([]fifo.Receipt, error) { return r.client.Enqueue(ctx, m) })
	if err != nil {
		return 0, err
	}
	return receipts[0].ID, nil
}

// spare returns a group of its own for a fault, in the queue whose jobs are worked one by one.
func (r *run) spare() int32 {
	for {
		group := r.cfg.group(int32(r.cfg.Groups)) + r.spares.Add(1)
		if queueOf(group) == queuePlain {
			return group
		}
	}
}

// delay sends the messages that wait all through the run.
func (r *run) delay(ctx context.Context) error {
	const atOnce = 1000
	for n := 0; n < r.cfg.Delayed; {
		var msgs []fifo.Message
		for ; n < r.cfg.Delayed && len(msgs) < atOnce; n++ {
			msgs = append(msgs, fifo.Message{
				Queue: queuePlain, GroupID: fmt.Sprint("z", n), Payload: task{},
				Delay: 24 * time.Hour,
			})
		}
		if _, err := r.client.Enqueue(ctx, msgs...); err != nil {
			return fmt.Errorf("delayed jobs: %w", err)
		}
	}
	return nil
}
