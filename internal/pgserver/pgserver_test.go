package pgserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// envHelper makes the test binary start a local server, tell its URL and wait
// to be killed, instead of running tests.
const envHelper = "PGSERVER_TEST_HELPER"

// nobody is an address where nothing listens.
const nobody = "127.0.0.1:1"

func TestMain(m *testing.M) {
	if os.Getenv(envHelper) != "" {
		srv, err := newStarter(nil, environment(map[string]string{EnvSource: sourceLocal})).start(context.Background())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(srv.URL)
		select {}
	}
	goleak.VerifyTestMain(m)
}

// environment returns a getenv with this process's PATH, and what is given.
func environment(vars map[string]string) func(string) string {
	return func(name string) string {
		if value, ok := vars[name]; ok {
			return value
		}
		if name == "PATH" {
			return os.Getenv(name)
		}
		return ""
	}
}

// startLocal starts a local server. Where PostgreSQL is not installed, it
// asserts that this is what the error says, and skips the test.
func startLocal(t *testing.T, opts *Options) *Server {
	t.Helper()
	s := newStarter(opts, environment(map[string]string{EnvSource: sourceLocal}))
	_, missing := s.findBinaries(t.Context())
	srv, err := s.start(t.Context())
	if missing != nil {
		require.ErrorContains(t, err, missing.Error())
		t.Skip(missing)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return srv
}

func setting(t *testing.T, url, name string) string {
	t.Helper()
	value, err := show(t.Context(), url, name)
	require.NoError(t, err)
	return value
}

func requireGone(t *testing.T, url string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := show(t.Context(), url, "server_version")
		return err != nil
	}, 30*time.Second, 50*time.Millisecond, "the server still answers")
}

// The one test that takes whatever server this machine has, as other packages'
// tests do: from Docker, where the environment says so.
func TestStartFromEnvironment(t *testing.T) {
	t.Parallel()
	var told []string
	srv, err := Start(t.Context(), &Options{Logf: func(format string, args ...any) {
		told = append(told, fmt.Sprintf(format, args...))
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Close()) }()
	t.Log(told)
	if forced := os.Getenv(EnvSource); forced != "" {
		require.Equal(t, forced, srv.Source)
	}
	require.Contains(t, told[len(told)-1], srv.Version+" from "+srv.Source)

	require.NoError(t, srv.Close())
	require.NoError(t, srv.Close(), "Close again")
	if srv.Source == sourceURL {
		require.Equal(t, srv.Version, setting(t, srv.URL, "server_version"), "not ours to stop")
		return
	}
	requireGone(t, srv.URL)
}

func TestLocalIsRemovedOnClose(t *testing.T) {
	t.Parallel()
	srv := startLocal(t, nil)
	require.Equal(t, sourceLocal, srv.Source)
	require.Equal(t, setting(t, srv.URL, "server_version"), srv.Version)
	require.Equal(t, "127.0.0.1", setting(t, srv.URL, "listen_addresses"))
	require.Equal(t, "300", setting(t, srv.URL, "max_connections"))
	require.Equal(t, "off", setting(t, srv.URL, "fsync"))
	dir := filepath.Dir(setting(t, srv.URL, "data_directory"))
	require.DirExists(t, dir)

	require.NoError(t, srv.Close())
	require.NoDirExists(t, dir)
	requireGone(t, srv.URL)
}

func TestLocalSettings(t *testing.T) {
	t.Parallel()
	srv := startLocal(t, &Options{Durable: true, Settings: map[string]string{
		"max_connections":  "20",
		"application_name": "with 'quotes' and spaces",
		"listen_addresses": "*",
	}})
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
		"max_connections": "20", "application_name": "with 'quotes' and spaces",
		"listen_addresses": "127.0.0.1",
	} {
		require.Equal(t, want, setting(t, srv.URL, name), name)
	}
}

func TestLocalBadSettingIsReported(t *testing.T) {
	t.Parallel()
	s := newStarter(&Options{Settings: map[string]string{"no_such_setting": "1"}},
		environment(map[string]string{EnvSource: sourceLocal}))
	if _, err := s.findBinaries(t.Context()); err != nil {
		return // startLocal's tests assert on this
	}
	_, err := s.start(t.Context())
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "no_such_setting", "the server's own words")
}

func TestLocalIsRemovedWhenKilled(t *testing.T) {
	t.Parallel()
	if _, err := newStarter(nil, os.Getenv).findBinaries(t.Context()); err != nil {
		t.Skip(err)
	}
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), envHelper+"=1")
	out, err := helper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, helper.Start())
	t.Cleanup(func() { _ = helper.Process.Kill() }) // where the test ends early
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	url := lines.Text()
	dir := filepath.Dir(setting(t, url, "data_directory"))
	require.DirExists(t, dir)

	require.NoError(t, helper.Process.Kill())
	require.Error(t, helper.Wait())
	requireGone(t, url)
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	}, 30*time.Second, 50*time.Millisecond, "%s is still there", dir)
}

func TestAnotherServerIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	srv := startLocal(t, nil)
	gone := make(chan struct{})
	close(gone) // as when our own server could not have the port
	err := waitReady(t.Context(), srv.URL, "ours", gone)
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "another server")
}

// A halted server is gone as after a crash, and comes back where it was, with what was committed and nothing else.
func TestHaltAndResume(t *testing.T) {
	t.Parallel()
	srv := startLocal(t, &Options{Durable: true})
	require.FileExists(t, srv.Log)
	ctx := t.Context()
	exec := func(conn *pgx.Conn, sql string) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	conn, err := pgx.Connect(ctx, srv.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	exec(conn, "CREATE TABLE t (n integer)")
	exec(conn, "INSERT INTO t VALUES (1)")
	exec(conn, "BEGIN")
	exec(conn, "INSERT INTO t VALUES (2)")
	for range 2 {
		require.NoError(t, srv.Halt())
		require.Error(t, conn.Ping(ctx), "its sessions have ended")
		_, err = show(ctx, srv.URL, "server_version")
		require.Error(t, err)
		require.NoError(t, srv.Resume(ctx))
		conn, err := pgx.Connect(ctx, srv.URL)
		require.NoError(t, err)
		var n, highest int
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*), max(n) FROM t").Scan(&n, &highest))
		require.Equal(t, []int{1, 1}, []int{n, highest})
		require.NoError(t, conn.Close(ctx))
	}
}
