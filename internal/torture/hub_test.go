package torture

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The sink refuses a lower token than it has seen for the group, or for the job where several of it may run, and knows
// who is between two writes.
func TestHub(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hub") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	book, err := openJournal(filepath.Join(dir, "sink.log"))
	require.NoError(t, err)
	h, err := newHub(filepath.Join(dir, "hub"), book, true, func() (int64, int64) { return 51, 25 })
	require.NoError(t, err)
	defer h.close()
	c := &hubClient{path: filepath.Join(dir, "hub")}

	for _, w := range []struct {
		group    int32
		job      int64
		token    int64
		phase    string
		accepted bool
	}{
		{1, 7, 10, "once", true},
		{1, 7, 10, "once", true},
		{1, 7, 9, "once", false},
		{2, 7, 5, "first", true},
		{1, 7, 11, "once", true},
		{1, 8, 10, "once", false},
		{4, 7, 11, "once", true}, // of queueSeveral
		{4, 8, 10, "once", true},
		{4, 7, 10, "once", false},
	} {
		accepted, err := c.write("w1", w.group, w.job, 1, w.token, w.phase)
		require.NoError(t, err)
		require.Equal(t, w.accepted, accepted, "%+v", w)
	}
	require.Equal(t, []int32{2}, h.held("w1"))
	require.Empty(t, h.held("w2"))
	_, err = c.write("w1", 2, 7, 1, 5, "second")
	require.NoError(t, err)
	require.Empty(t, h.held("w1"))
	require.Len(t, h.writes, 10)

	from, count, err := c.ticket()
	require.NoError(t, err)
	require.Equal(t, []int64{51, 25}, []int64{from, count})
	_, err = c.ask("nonsense")
	require.ErrorContains(t, err, "error")
}
