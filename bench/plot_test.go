package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
	for _, part := range []string{">A title<", ">seconds<", ">jobs/s<", ">one<", ">other<"} {
		require.Contains(t, string(svg), part)
	}
}
