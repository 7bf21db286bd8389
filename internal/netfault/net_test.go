//go:build unix

package netfault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgserver"
)

const childEnv = "PGFIFO_TEST_NETFAULT"

// child makes this binary the process in the namespace: it pings the server at the given URL and says after each time
// how that went, until its input ends. Or it makes a namespace, says its address, and waits to be killed.
func child() {
	at, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	if at == "" {
		n, err := netfault.NewNet()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n.HostIP())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		fmt.Println(ping(at))
	}
}

// ping returns "up", or "down" after a second of silence.
func ping(at string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return "down"
	}
	defer func() { _ = conn.Close(ctx) }()
	for err == nil {
		beat, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err = conn.Exec(beat, "SELECT pg_sleep(0.01)")
		cancel()
		if err == nil {
			fmt.Println("up")
		}
	}
	return "down"
}

func newNet(t *testing.T) *netfault.Net {
	t.Helper()
	n, err := netfault.NewNet()
	if err != nil {
		require.ErrorIs(t, err, netfault.ErrNoNet)
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// serve starts a server that the namespace can reach, and returns its URL there.
func serve(t *testing.T, n *netfault.Net) string {
	t.Helper()
	srv, err := pgserver.Start(t.Context(), &pgserver.Options{Listen: []string{n.HostIP()}, Logf: t.Logf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	if srv.Source != "local" {
		t.Skip("skipped: only a local server can listen to a network namespace; this one is from ", srv.Source)
	}
	u, err := url.Parse(srv.URL)
	require.NoError(t, err)
	u.Host = net.JoinHostPort(n.HostIP(), u.Port())
	return u.String()
}

func TestNet(t *testing.T) {
	t.Parallel()
	n := newNet(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+serve(t, n))
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = t.Output()
	require.NoError(t, n.Run(cmd))
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	says := func(want string) {
		t.Helper()
		limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		for got := ""; got != want; {
			_, err := fmt.Fscanln(stdout, &got)
			require.NoError(t, err, "waiting for %s", want)
		}
	}
	says("up")
	for name, cut := range map[string]func() error{
		"link":                 n.Cut,
		"to the server":        func() error { return n.CutOneWay(netfault.ToServer) },
		"to the client":        func() error { return n.CutOneWay(netfault.ToClient) },
		"link, and on the way": func() error { return errors.Join(n.Cut(), n.CutOneWay(netfault.ToServer)) },
	} {
		t.Log(name)
		require.NoError(t, cut())
		says("down")
		require.NoError(t, n.Heal())
		says("up")
	}

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM), "signals reach the process itself")
	require.Error(t, cmd.Wait())
	require.Equal(t, syscall.SIGTERM, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// A Net goes with the process that made it, also if that is killed.
func TestNetIsRemovedWhenKilled(t *testing.T) {
	t.Parallel()
	newNet(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=")
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
