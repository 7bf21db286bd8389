package fifo_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// tenant is the share of a group that is named tenant/group.
func tenant(group string) string {
	t, _, _ := strings.Cut(group, "/")
	return t
}

// ahead has a tenant with many groups, and one with few whose names come last, and a worker with one lane. It returns
// how many jobs of the many were done before the last one of the few.
func (b *bed) ahead(many int, share func(group string) string) int {
	b.t.Helper()
	const few, each = 5, 20
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'many/' || i, '' FROM generate_series(1, $1::integer) i, generate_series(1, $2::integer)`,
		many/each, each)
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'z few/' || i, '' FROM generate_series(1, $1::integer) i, generate_series(1, $2::integer)`,
		few, each)
	var ofMany, ofFew, first atomic.Int64
	w := &fifo.Worker{Client: b.client, Concurrency: 1}
	w.HandleQueue("q", fifo.Queue{Share: share, Handler: b.ledger.record(func(_ context.Context, job *fifo.Job) error {
		switch {
		case tenant(job.GroupID) == "many":
			ofMany.Add(1)
		case ofFew.Add(1) == few*each:
			first.Store(ofMany.Load())
		}
		return nil
	})})
	b.work(w)
	require.EqualValues(b.t, many, ofMany.Load())
	require.EqualValues(b.t, few*each, ofFew.Load())
	return int(first.Load())
}

// A tenant with a few groups does not wait for the groups of one with many: it has every other turn or so. Without
// Share it waits for as many turns of each of the others' groups as it has jobs.
func TestShare(t *testing.T) {
	const many = 1600
	with := newBed(t).ahead(many, tenant)
	other := bedOn(t, pgtest.URL(t))
	without := other.ahead(many, nil)
	t.Logf("behind %d jobs of %d, and %d without Share", with, many, without)
	require.Less(t, with, many/4)
	require.Greater(t, without, many/2)
}

// A Share that panics, or ends its goroutine, makes its groups those of share "", and harms nothing else.
func TestShareThatPanics(t *testing.T) {
	var log logFile
	b := newBed(t, log.set)
	b.sendMany("q", 30, 1)
	w := &fifo.Worker{Client: b.client}
	w.HandleQueue("q", fifo.Queue{
		Handler: b.ledger.record(nop),
		Share: func(group string) string {
			switch {
			case strings.HasSuffix(group, "3"):
				panic("no such tenant")
			case strings.HasSuffix(group, "7"):
				runtime.Goexit()
			}
			return group
		},
	})
	run := b.run(w)
	b.drained()
	b.sendAll(fifo.Message{Queue: "q", GroupID: "late 3"}, fifo.Message{Queue: "q", GroupID: "late 7"})
	run.finish()
	require.Len(t, log.lines("Share panicked"), 1)
}

func TestInvalidWeights(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]fifo.Queue{
		"without a share": {Handler: nop, Weights: map[string]int{"a": 2}},
		"none":            {Handler: nop, Share: tenant, Weights: map[string]int{"a": 0}},
		"too large":       {Handler: nop, Share: tenant, Weights: map[string]int{"a": fifo.MaxWeight + 1}},
	} {
		require.Panics(t, func() { new(fifo.Worker).HandleQueue("q", q) }, name)
	}
	weights := map[string]int{"a": fifo.MaxWeight}
	new(fifo.Worker).HandleQueue("q", fifo.Queue{Handler: nop, Share: tenant, Weights: weights})
}
