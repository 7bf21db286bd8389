package fifo_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// settings returns those of queue q.
func (b *bed) settings() fifo.Settings {
	b.t.Helper()
	got, err := b.q.Settings(b.t.Context())
	require.NoError(b.t, err)
	return got
}

// The first that configures a queue wins, the same again changes nothing, and others are refused, with both values.
func TestConfigure(t *testing.T) {
	b := newBed(t)
	ctx, q := t.Context(), b.q
	defaults := fifo.Settings{DedupWindow: 5 * time.Minute, GroupLimit: 1}
	require.Equal(t, defaults, b.settings())
	mine := fifo.Settings{DedupWindow: time.Hour + time.Nanosecond, DedupByGroup: true}
	stored := fifo.Settings{DedupWindow: time.Hour + time.Microsecond, DedupByGroup: true, GroupLimit: 1}
	for range 2 {
		require.NoError(t, q.Configure(ctx, mine))
		require.NoError(t, q.Configure(ctx, stored))
		require.Equal(t, stored, b.settings())
	}
	for _, other := range []fifo.Settings{{}, {DedupByGroup: true}, {DedupWindow: stored.DedupWindow}} {
		err := q.Configure(ctx, other)
		require.ErrorIs(t, err, fifo.ErrConflict)
		if other.DedupWindow == 0 {
			require.ErrorContains(t, err, "DedupWindow is 1h0m0.000001s, not 5m0s")
		}
		require.Equal(t, !other.DedupByGroup, strings.Contains(err.Error(), "DedupByGroup is true, not false"))
		require.NotContains(t, err.Error(), "GroupLimit")
		require.Equal(t, stored, b.settings())
	}
	require.NoError(t, b.client.Queue("other").Configure(ctx, fifo.Settings{}), "of another queue")
	require.NoError(t, b.client.Queue("other").Configure(ctx, defaults), "zero is the default")

	for _, invalid := range []fifo.Settings{
		{DedupWindow: -1},
		{DedupWindow: fifo.MaxDelay + 1},
		{DeadLetterRetention: -1},
		{Limit: -1},
		{Limit: fifo.MaxLimit + 1},
	} {
		require.ErrorIs(t, q.Configure(ctx, invalid), fifo.ErrInvalidSettings)
		require.ErrorIs(t, q.Reconfigure(ctx, invalid, stored), fifo.ErrInvalidSettings)
		require.ErrorIs(t, q.Reconfigure(ctx, stored, invalid), fifo.ErrInvalidSettings)
	}
	for _, s := range []fifo.Scope{q.Group("g"), b.client.Queue("")} {
		require.ErrorIs(t, second(s.Settings(ctx)), fifo.ErrInvalidID)
		require.ErrorIs(t, s.Configure(ctx, stored), fifo.ErrInvalidID)
		require.ErrorIs(t, s.Reconfigure(ctx, stored, stored), fifo.ErrInvalidID)
	}
	require.Equal(t, stored, b.settings())
}

// A change says what it replaces, and is refused if that is not what there is.
func TestReconfigure(t *testing.T) {
	b := newBed(t)
	ctx, q := t.Context(), b.q
	first, second := fifo.Settings{DedupWindow: time.Hour}, fifo.Settings{DedupByGroup: true}
	err := q.Reconfigure(ctx, first, second)
	require.ErrorIs(t, err, fifo.ErrConflict)
	require.ErrorContains(t, err, "DedupWindow is 5m0s, not 1h0m0s")
	require.Zero(t, b.count("queues"))
	require.NoError(t, q.Reconfigure(ctx, fifo.Settings{}, first), "a queue without settings has the defaults")
	require.ErrorIs(t, q.Reconfigure(ctx, fifo.Settings{}, second), fifo.ErrConflict)
	require.ErrorIs(t, q.Reconfigure(ctx, fifo.Settings{DedupWindow: time.Hour, DedupByGroup: true}, second),
		fifo.ErrConflict)
	other := first
	other.DeadLetterRetention = time.Hour
	require.ErrorIs(t, q.Reconfigure(ctx, other, second), fifo.ErrConflict)
	require.NoError(t, q.Reconfigure(ctx, first, second))
	require.ErrorIs(t, q.Configure(ctx, first), fifo.ErrConflict)
	require.NoError(t, q.Configure(ctx, second))

	err = b.client.InTx(ctx, func(tx pgx.Tx) error {
		require.NoError(t, q.InPgx(tx).Reconfigure(ctx, second, first))
		require.NoError(t, b.client.Queue("r").InPgx(tx).Configure(ctx, second))
		return errOnPurpose
	})
	require.ErrorIs(t, err, errOnPurpose)
	require.Equal(t, fifo.Settings{DedupWindow: 5 * time.Minute, DedupByGroup: true, GroupLimit: 1}, b.settings())
	require.Equal(t, 1, b.count("queues"))
}

// A queue that has or had the one of two settings which exclude each other is not given the other, and is told why.
func TestReconfigureExclusive(t *testing.T) {
	several, bySession := fifo.Settings{GroupLimit: 2}, fifo.Settings{SessionLease: true}
	type row struct{ had, wants fifo.Settings }
	pgtest.OverAll(t, map[string]row{
		"groups": {several, bySession}, "session": {bySession, several},
	}, func(t *testing.T, x row) {
		b := newBed(t)
		require.NoError(t, b.q.Configure(t.Context(), x.had))
		require.ErrorIs(t, b.q.Reconfigure(t.Context(), x.had, x.wants), fifo.ErrInvalidSettings)
		require.NoError(t, b.q.Reconfigure(t.Context(), x.had, fifo.Settings{}))
		err := b.q.Reconfigure(t.Context(), fifo.Settings{}, x.wants)
		require.ErrorIs(t, err, fifo.ErrInvalidSettings)
		require.ErrorContains(t, err, "has had")
		require.ErrorIs(t, b.q.Reconfigure(t.Context(), x.wants, fifo.Settings{}), fifo.ErrConflict)
	})
}

// A lease of a newer release is not replaced. It is named, and so is what differs besides.
func TestUnknownLease(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{}))
	b.exec("ALTER TABLE pgfifo.queues DROP CONSTRAINT queues_lease_check; UPDATE pgfifo.queues SET lease = 'newer'")
	for _, from := range []fifo.Settings{{}, {Limit: 7}, {SessionLease: true}} {
		for _, err := range []error{
			b.q.Configure(t.Context(), from),
			b.q.Reconfigure(t.Context(), from, fifo.Settings{DedupByGroup: true}),
		} {
			require.ErrorIs(t, err, fifo.ErrConflict)
			require.ErrorContains(t, err, `the lease is "newer", which this release does not know`)
			require.Equal(t, from.Limit == 7, strings.Contains(err.Error(), "Limit is 0, not 7"))
			require.NotContains(t, err.Error(), "SessionLease")
		}
	}
	require.Equal(t, 1, b.count("queues WHERE lease = 'newer' AND NOT dedup_by_group"))
}

// A meanwhile does something before the first statement that contains text, or before the first few.
type meanwhile struct {
	text string
	do   func()
	few  int64 // 0: one
	did  atomic.Int64
}

func (m *meanwhile) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, m.text) && m.did.Add(1) <= max(m.few, 1) {
		m.do()
	}
	return ctx
}

func (*meanwhile) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// If somebody makes the settings those to be replaced just after they were not, they are replaced.
func TestReconfigureBesideAnother(t *testing.T) {
	b := newBed(t)
	first, second := fifo.Settings{DedupWindow: time.Hour}, fifo.Settings{GroupLimit: 2}
	q := b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Tracer = &meanwhile{text: "-- Returns the settings of a queue", do: func() {
			require.NoError(t, b.q.Configure(t.Context(), first))
		}}
	})).Queue("q")
	require.NoError(t, q.Reconfigure(t.Context(), first, second))
	require.Equal(t, 2, b.settings().GroupLimit)
}

// Of many processes that start at once with settings that differ, all agree in the end on whose they are: one has its
// own, and the others are told so.
func TestConfigureAtOnce(t *testing.T) {
	b := newBed(t)
	var wg sync.WaitGroup
	errs := make([]error, 16)
	mine := func(i int) time.Duration { return time.Duration(i%4+1) * time.Hour }
	for i := range errs {
		wg.Go(func() { errs[i] = b.q.Configure(t.Context(), fifo.Settings{DedupWindow: mine(i)}) })
	}
	wg.Wait()
	got := b.settings().DedupWindow
	for i, err := range errs {
		if mine(i) == got {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, fifo.ErrConflict)
			require.ErrorContains(t, err, fmt.Sprintf("DedupWindow is %v, not ", got))
		}
	}
}

// The second waits for a transaction that configures the queue, and takes its place if that is undone.
func TestConfigureWaits(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, undo bool) {
		b := newBed(t)
		tx := b.begin()
		require.NoError(t, b.q.InPgx(tx).Configure(t.Context(), fifo.Settings{DedupByGroup: true}))
		second := beside(func() error { return b.q.Configure(t.Context(), fifo.Settings{}) })
		await(t, "the second to wait", func() bool { return b.blocked() == 1 })
		if undo {
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, receive(t, second, "the second"))
		} else {
			require.NoError(t, tx.Commit(t.Context()))
			require.ErrorIs(t, receive(t, second, "the second"), fifo.ErrConflict)
		}
	})
}
