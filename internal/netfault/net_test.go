//go:build unix

package netfault_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
)

const childEnv = "PGFIFO_TEST_NETFAULT"

// child makes this binary a process that makes a namespace, says its address, and waits to be killed.
func child() {
	if os.Getenv(childEnv) == "" {
		return
	}
	n, err := netfault.NewNet()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(n.HostIP())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// A Net goes with the process that made it, also if that is killed. What else it does, TestSilence shows.
func TestNetIsRemovedWhenKilled(t *testing.T) {
	t.Parallel()
	n, err := netfault.NewNet()
	if err != nil {
		require.ErrorIs(t, err, netfault.ErrNoNet)
		t.Skip("skipped: ", err)
	}
	require.NoError(t, n.Close())
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var ip string
	_, err = fmt.Fscanln(stdout, &ip)
	require.NoError(t, err)
	require.True(t, isOurs(t, ip), ip)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool { return !isOurs(t, ip) }, patience, 20*time.Millisecond)
}

// isOurs reports whether this machine has an address.
func isOurs(t *testing.T, ip string) bool {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addrs {
		if a.(*net.IPNet).IP.String() == ip {
			return true
		}
	}
	return false
}
