package pgserver

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server's data is in memory, if that has room.
func TestLocalIsInMemory(t *testing.T) {
	t.Parallel()
	dir := memoryDir()
	if dir == "" {
		require.Empty(t, newStarter(nil, environment(nil)).dataDir())
		return
	}
	srv := startLocal(t, nil)
	require.Equal(t, dir, filepath.Dir(filepath.Dir(setting(t, srv.URL, "data_directory"))))
}

func TestServersThatAreNotInMemory(t *testing.T) {
	t.Parallel()
	require.Empty(t, newStarter(&Options{Durable: true}, environment(nil)).dataDir())
	require.Empty(t, newStarter(nil, environment(map[string]string{"TMPDIR": "/tmp"})).dataDir(),
		"somebody says where")
}

func TestNoRoomInMemory(t *testing.T) {
	t.Parallel()
	require.False(t, isInMemory(sharedMemory, 1<<62))
	require.False(t, isInMemory("/proc", 0))
	require.False(t, isInMemory("/nowhere", 0))
	require.Positive(t, freeMemory())
}
