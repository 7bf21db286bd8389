package torture

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A soak for every day.
func TestSoak(t *testing.T) { //nolint:paralleltest // TestShort looks how long jobs wait, and is not to wait for this
	cfg, err := Profile("soak")
	require.NoError(t, err)
	cfg.Jobs, cfg.Groups, cfg.Lanes = 600, 40, 3
	cfg.Faults = map[string]int{"terminates": 10, "operators": 3, "stubborn": 3, "bounces": 6}
	report := survive(t, cfg)
	require.Equal(t, 6, report.Faults[faultBounce])
	require.Greater(t, report.Checked["I15"], cfg.Processes)
}

// Whatever is left behind is told of.
func TestLeftovers(t *testing.T) { //nolint:paralleltest // it counts goroutines and open files
	pool := pgtest.Pool(t)
	require.NoError(t, pool.Ping(t.Context()))
	before := atRest(pool)
	require.Empty(t, leftovers(pool, before))

	hung := make(chan struct{})
	go func() { <-hung }()
	defer close(hung)
	for range 50 { // what other tests leave open is closed meanwhile
		file, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer func() { _ = file.Close() }()
	}
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	told := strings.Join(look(pool).above(before), "\n")
	require.Contains(t, told, "TestLeftovers.func")
	require.Contains(t, told, "connections in use: 1, and before 0")
	if before.files >= 0 {
		require.Contains(t, told, "open files: ")
	}
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
		var list []sample
		for i := range 180 { // 15 minutes; the first third is a cache that fills
			at := time.Duration(5*i) * time.Second
			bytes := 200*mib + x.perHour*at.Hours() + mib*math.Sin(float64(i*i)) - 100*mib*math.Exp(-float64(i)/5)
			list = append(list, sample{int64(at), int64(bytes)})
		}
		trend := newTrend(name, list, 2*mib)
		require.InDelta(t, x.perHour, trend.PerHour, 2*mib)
		require.Equal(t, x.flat, trend.Flat, trend)
		require.Zero(t, newTrend(name, list[:minSamples-1], 0).Samples)
	}
}

func TestSoakFlaws(t *testing.T) {
	t.Parallel()
	look := func(b *book, statements, left int64) {
		b.soak = true
		b.event(0, evPrepared, 0, 1, 1, statements, "-").event(0, evLeft, 0, 0, 0, left, "open files")
	}
	soak := func(b *book) { look(b, mostStatements, 0) }
	grow := func(b *book, by int64) {
		soak(b)
		b.long = true
		for i := range int64(2 * minSamples) {
			b.later(5000).event(0, evMemory, 0, 0, 0, 100*mib+i*by, "heap")
		}
	}
	judge(t, map[string]flaw{
		"nothing wrong":                {"", soak},
		"nobody has looked":            {"I15", func(b *book) { b.soak = true }},
		"something is left behind":     {"I15", func(b *book) { look(b, mostStatements, 1) }},
		"statements pile up":           {"I15", func(b *book) { look(b, mostStatements+1, 0) }},
		"memory is flat":               {"", func(b *book) { grow(b, 0) }},
		"memory grows":                 {"I15", func(b *book) { grow(b, mib) }},
		"it was too short to see that": {"I15", func(b *book) { soak(b); b.long = true }},
	})
}
