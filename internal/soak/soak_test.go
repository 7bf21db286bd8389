package soak

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A soak for every day. It looks at all goroutines, so nothing runs beside it.
func TestSoak(t *testing.T) { //nolint:paralleltest // see above
	rep, err := Run(t.Context(), pgtest.URL(t), Config{Jobs: 2000, Faults: 50, Lanes: 4, Log: t.Output()})
	require.NoError(t, err)
	require.NoError(t, rep.Print(t.Output()))
	require.Empty(t, rep.Problems)
	require.GreaterOrEqual(t, rep.Jobs, 2000)
	require.Equal(t, 50, count(rep.Faults))
}

// Whatever is left behind is told of.
func TestGaugeSeesLeaks(t *testing.T) { //nolint:paralleltest // it counts goroutines and open files
	url := pgtest.URL(t)
	pool := pgtest.Connect(t, url)
	g, err := newGauge(t.Context(), url)
	require.NoError(t, err)
	defer g.close()
	before, err := g.atRest(t.Context(), pool, nil)
	require.NoError(t, err)

	hung := make(chan struct{})
	go func() { <-hung }()
	defer close(hung)
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	cfg.RuntimeParams["application_name"] = "leaked"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, sql := range []string{"CREATE TEMP TABLE left_over (n int)", "BEGIN", "LOCK TABLE left_over"} {
		_, err = conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}

	after, err := g.level(t.Context())
	require.NoError(t, err)
	told := strings.Join(after.above(before), "\n")
	for _, what := range []string{
		"TestGaugeSeesLeaks.func", `connections of "leaked": 1, and before 0`,
		"sessions idle in a transaction: 1, and before 0",
		"locks: ", "temporary tables: 1, and before 0",
	} {
		require.Contains(t, told, what)
	}
	if before.Files >= 0 {
		require.Contains(t, told, "open files: ")
	}
	rep := &Report{Before: before, After: after, Statements: 1}
	rep.judge(false)
	require.NotEmpty(t, rep.Problems)
}

// A line is found in what is one, noise or not, and a slope is called growth from where it matters.
func TestTrend(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		perHour float64
		flat    bool
	}{
		"flat": {0, true}, "a little": {4 * mib, true}, "leak": {40 * mib, false}, "shrinks": {-400 * mib, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &gauge{}
			for i := range 180 { // 15 minutes; the first third is a cache that fills
				at := time.Duration(5*i) * time.Second
				noise := mib * math.Sin(float64(i*i))
				g.samples = append(g.samples, sample{
					at: at, heap: 200*mib + x.perHour*at.Hours() + noise - 100*mib*math.Exp(-float64(i)/5),
				})
			}
			list := g.trends()
			require.Len(t, list, 1, "what is not known is left out")
			require.InDelta(t, x.perHour, list[0].PerHour, 2*mib)
			require.Equal(t, x.flat, list[0].Flat(), "%+v", list[0])
		})
	}
	require.Empty(t, (&gauge{samples: make([]sample, minSamples-1)}).trends())
}

// A group that goes backwards, or a job that has its effect twice, is told of.
func TestVerify(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	r := &run{Config: Config{Groups: 2}, pool: pool}
	require.NoError(t, r.makeProgress(t.Context()))
	r.sent.Store(3)
	_, err := pool.Exec(t.Context(), "UPDATE progress SET done = 2 WHERE queue = 'slice'")
	require.NoError(t, err)
	require.NoError(t, r.verify(t.Context()))
	require.Equal(t, []string{"3 jobs were enqueued, and 4 have had their effect"}, r.wrong.list())
}
