package fifo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", maxNameBytes)
	for name, want := range map[string]string{
		"a worker ~1": "a worker ~1", "wörker": "w??rker", "a\nb\x7f": "a?b?", long: long, long + ":1": long,
		long[1:] + "é": long[1:] + "?",
	} {
		require.Equal(t, want, shapeName(name))
	}
	require.Equal(t, "pgfifo host:1", nameOfProcess("host", 1))
	name := nameOfProcess(strings.Repeat("h", 300), 4194304)
	require.Len(t, name, maxNameBytes)
	require.Regexp(t, "^pgfifo h+:4194304$", name)
}
