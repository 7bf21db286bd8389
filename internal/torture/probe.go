package torture

import (
	"context"
	"fmt"
	"strings"

	"github.com/pgfifo/pgfifo/fifo"
)

// howProbe is how the harness itself sends messages: to groups that are held just then, and will be for a while.
const howProbe = "probe"

// probes is what the numbers of the harness's own messages are higher by.
const probes = 1 << 41

// probe sends messages to groups that are held.
func (r *run) probe(ctx context.Context, held []int32) {
	for _, group := range held[:min(len(held), 3)] {
		n := probes + r.probed.Add(1)
		m := task{N: n}.message(group, r.cfg.Batch > 1)
		r.probes.line("invoke %d %s %d:%d", n, howProbe, n, group)
		ids, err := r.client.Enqueue(ctx, []fifo.Message{m}...)
		switch {
		case err == nil:
			r.probes.line("ok %d %s %s", n, howProbe, fmt.Sprint(ids[0]))
		case failed(err):
			r.probes.line("fail %d %s %s", n, howProbe, strings.ReplaceAll(err.Error(), "\n", " "))
		default:
			r.probes.line("unknown %d %s %s", n, howProbe, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}
