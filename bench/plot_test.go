package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
)

func TestCurves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, other := series{name: "one"}, series{name: "other"}
	for i := range 100 {
		one.add(float64(i), float64(i))
	}
	other.add(0, 0) // has no place on a logarithmic axis
	other.add(50, 3)
	other.add(100, 3)
	charts := []chart{
		{
			name: "linear", title: "A title", x: axis{label: "seconds"}, y: axis{label: "jobs/s"},
			series: []series{one, other},
		},
		{
			name: "log", x: axis{label: "jobs that wait", log: true}, y: axis{label: "ms", log: true},
			series: []series{one, other},
		},
		{name: "flat", series: []series{{name: "zero", points: []point{{0, 0}}}}},
		{name: "nothing", series: []series{{name: "empty"}}},
	}
	names, err := drawCharts(dir, "test", nil, charts)
	require.NoError(t, err)
	require.Equal(t, []string{"test-linear.svg", "test-log.svg", "test-flat.svg"}, names)
	svg, err := os.ReadFile(filepath.Join(dir, "test-linear.svg"))
	require.NoError(t, err)
	for _, part := range []string{">A title<", ">seconds<", ">jobs/s<", ">one<", ">other<", "Liberation Sans,Arial,"} {
		require.Contains(t, string(svg), part)
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	results := []Result{
		{System: "pgfifo", Params: map[string]any{"lanes": 8, "batch": 1}, Rate: 2400, RatioTo: "ceiling"},
		{System: "pgfifo", Params: map[string]any{"lanes": 8, "batch": 1}, Rate: 2400, RatioTo: "naive"},
		{System: "pgfifo", Params: map[string]any{"lanes": 8, "batch": 10}, Rate: 12_400},
		{System: "River", Params: map[string]any{"rate": 100}, Rate: 100, P50: 1, P99: 10},
	}
	names, err := drawCharts(dir, "test", results, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"test-rates.svg", "test-latencies.svg"}, names)
	svg, err := os.ReadFile(filepath.Join(dir, "test-rates.svg"))
	require.NoError(t, err)
	for _, part := range []string{">pgfifo  batch=1<", ">pgfifo  batch=10<", ">12.4k<", ">jobs/s<"} {
		require.Contains(t, string(svg), part)
	}
	require.NotContains(t, string(svg), "River", "the rate was given to it")
	require.Len(t, bars(results, func(r Result) bool { return r.Rate > 0 && !loaded(r) }), 2)
}

func TestBarsOfOneLine(t *testing.T) {
	t.Parallel()
	names, err := drawCharts(t.TempDir(), "test", []Result{{System: "pgfifo", Rate: 1}}, nil)
	require.NoError(t, err)
	require.Empty(t, names, "nothing to compare")
}

func TestTicks(t *testing.T) {
	t.Parallel()
	labels := func(ticks []plot.Tick) (list []string) {
		for _, tick := range ticks {
			if tick.Label != "" {
				list = append(list, tick.Label)
			}
		}
		return list
	}
	require.Equal(t, []string{"0", "500", "1000", "1500", "2000"}, labels(linearTicks{}.Ticks(0, 2400)))
	require.Equal(t, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}, labels(linearTicks{}.Ticks(0, 1)))
	require.Contains(t, labels(logTicks{}.Ticks(0.3, 40)), "0.5")
	require.Equal(t, []string{"1000", "10k", "100k", "1M", "10M"}, labels(logTicks{}.Ticks(8e3, 1.2e7)))
	require.Equal(t, "12.4k", short(12_412))
	require.Equal(t, "9994", short(9994))
	require.Equal(t, "1M", short(999_600))
}
