package fifo_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
)

// A freezer stops the process, as its server sees it, before the first statement that it knows.
type freezer struct {
	part   string
	once   sync.Once
	frozen chan struct{}
	thaw   chan struct{}
}

func (f *freezer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, f.part) {
		f.once.Do(func() {
			close(f.frozen)
			<-f.thaw
		})
	}
	return ctx
}

func (f *freezer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A sweeper that freezes while it has locked idle groups keeps them for no longer than a frozen lane would.
func TestFrozenSweeperFreesGroups(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id, created_at) VALUES ('q', 'g', '2000-01-01')")
	f := &freezer{part: "DELETE FROM pgfifo.queue_groups", frozen: make(chan struct{}), thaw: make(chan struct{})}
	sweeper := b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = f }))
	b.run(b.worker(nop, func(w *fifo.Worker) {
		w.Client = sweeper
		w.Sweep.Interval = 10 * time.Millisecond
		w.Session = groups.Session{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3500 * time.Millisecond}
	}))
	t.Cleanup(func() { close(f.thaw) })
	receive(t, f.frozen, "the sweep")
	b.send("g", nil)
	const free = "SELECT count(*) FROM (SELECT FROM pgfifo.queue_groups WHERE group_id = 'g' FOR UPDATE SKIP LOCKED) g"
	require.Zero(t, query[int](b, free))
	b.drained()
}
