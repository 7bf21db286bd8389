package torture

import (
	"net/rpc"
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
	h, err := newHub(filepath.Join(dir, "hub"), func() (int64, int64) { return 51, 25 })
	require.NoError(t, err)
	defer h.close()
	c, err := rpc.Dial("unix", filepath.Join(dir, "hub"))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	write := func(group int32, job, token int64, phase string) (accepted bool) {
		require.NoError(t, c.Call(hubName+".Write", Call{"w1", group, job, token, 1, phase}, &accepted))
		return accepted
	}

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
		require.Equal(t, w.accepted, write(w.group, w.job, w.token, w.phase), "%+v", w)
	}
	require.Equal(t, []int32{2}, h.held("w1", false))
	require.Empty(t, h.held("w1", true))
	require.Empty(t, h.held("w2", false))
	require.True(t, write(2, 7, 5, "second"))
	require.Empty(t, h.held("w1", false))
	require.True(t, write(2, 7, 5, "open"))
	require.Equal(t, []int32{2}, h.held("w1", true))
	require.Len(t, h.writes, 11)

	var ticket Ticket
	require.NoError(t, c.Call(hubName+".Ticket", "p1", &ticket))
	require.Equal(t, Ticket{51, 25}, ticket)
}
