//go:build unix

package pgfifo_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/daemon"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

// A cluster is a PostgreSQL server of a test's own, to be crashed, restarted, copied and promoted.
type cluster struct {
	*program
	bin  string
	set  map[string]string
	asks *pgx.Conn // the test's own connection, or nil
}

// emptyCluster is a cluster without data, or skips the test.
func emptyCluster(t *testing.T, set map[string]string) *cluster {
	t.Helper()
	bin, err := pgserver.Binaries(t.Context())
	if err != nil {
		t.Skip("skipped: no PostgreSQL server is installed here, and this test crashes one of its own: ", err)
	}
	c := &cluster{bin: bin, set: set}
	c.program = newProgram(t, pgserver.DataDir(), syscall.SIGQUIT)
	return c
}

// another returns one without data, with the same settings.
func (c *cluster) another() *cluster {
	c.Helper()
	return emptyCluster(c.T, c.set)
}

// version returns the x of PostgreSQL x.y.
func (c *cluster) version() int {
	c.Helper()
	out, err := exec.Command(filepath.Join(c.bin, "postgres"), "--version").Output()
	require.NoError(c, err)
	return firstNumber(c.T, `PostgreSQL\) (\d+)`, out)
}

// firstNumber returns the number that a pattern has in parentheses, in the output of a program.
func firstNumber(t *testing.T, pattern string, out []byte) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(out)
	require.NotNil(t, found, "%s", out)
	n, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return n
}

// fill makes the data.
func (c *cluster) fill() {
	c.Helper()
	gone, err := pgserver.Data(c.Context(), c.Daemon, c.bin)
	require.NoError(c, err)
	c.Cleanup(func() { require.NoError(c, gone()) })
}

// newCluster makes a cluster and starts it, with the given settings. It has the test run beside others.
func newCluster(t *testing.T, set map[string]string) *cluster {
	t.Helper()
	t.Parallel()
	c := emptyCluster(t, set)
	c.fill()
	c.serve()
	return c
}

func (c *cluster) data() string { return filepath.Join(c.Dir, "data") }

// serve starts the server and waits until it answers.
func (c *cluster) serve() {
	c.Helper()
	set := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(c.port), "unix_socket_directories": "",
		"fsync":             "off", // the machine goes on when the server crashes: what was written is there
		"logging_collector": "off", "shared_buffers": "32MB",
	}
	maps.Copy(set, c.set)
	args := []string{"-D", c.data()}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", name+"="+set[name])
	}
	require.NoError(c, c.Start(filepath.Join(c.bin, "postgres"), args...))
	c.await("the server's answer", func() bool {
		require.False(c, c.Ended(), "%s", c.said())
		return c.answers()
	})
}

// answers reports whether the server does, on a new connection for the test.
func (c *cluster) answers() bool {
	conn, err := pgx.Connect(c.Context(), c.url(c.port))
	if err == nil {
		c.hangUp()
		c.asks = conn
	}
	return err == nil
}

func (c *cluster) hangUp() {
	if c.asks != nil {
		_ = c.asks.Close(context.Background())
	}
}

// crash is an immediate shutdown: no checkpoint, nothing more is written.
func (c *cluster) crash() {
	c.Helper()
	require.NoError(c, c.Stop())
	c.hangUp()
}

func (c *cluster) url(ports ...int) string {
	hosts := make([]string, len(ports))
	for i, port := range ports {
		hosts[i] = fmt.Sprint("127.0.0.1:", port)
	}
	return "postgres://postgres@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable&target_session_attrs=any"
}

// query returns the one value of the one row.
func query[T any](c *cluster, sql string, args ...any) (v T) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	require.NoError(c, c.asks.QueryRow(ctx, sql, args...).Scan(&v))
	return v
}

func (c *cluster) exec(sql string) {
	c.Helper()
	_, err := c.asks.Exec(c.Context(), sql)
	require.NoError(c, err, sql)
}

// migrate makes the library's schema.
func (c *cluster) migrate() {
	c.Helper()
	require.NoError(c, migrations.Up(c.Context(), pgtest.Connect(c, c.url(c.port)), nil))
}

// site makes the library's schema, and returns the site that is there.
func (c *cluster) site() *site {
	c.Helper()
	c.migrate()
	return newSiteAt(c.T, c.url(c.port))
}

// A program is one of a test's own, in a folder of its own. It ends with the test.
type program struct {
	*testing.T
	*daemon.Daemon
	port int
}

// newProgram makes the folder, in another one; "" is that for temporary files. The signal ends the program at once.
func newProgram(t *testing.T, parent string, quit syscall.Signal) *program {
	t.Helper()
	d, err := daemon.New(parent)
	require.NoError(t, err)
	d.Quit = func(p *os.Process) { _ = p.Signal(quit) }
	port, err := daemon.FreePort()
	require.NoError(t, err)
	p := &program{t, d, port}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s: %s", d.Dir, p.said())
		}
		require.NoError(t, d.Close())
	})
	return p
}

// run runs a program to its end.
func (p *program) run(path string, arg ...string) {
	p.Helper()
	require.NoError(p, p.Execute(p.Context(), path, arg...), "%s", p.said())
}

// said returns the end of the program's log.
func (p *program) said() string {
	text, _ := os.ReadFile(p.LogFile())
	return string(text[max(0, len(text)-4000):])
}

// await waits for a condition.
func (p *program) await(what string, cond func() bool) {
	p.Helper()
	if !pgtest.Wait(3*patience, cond) {
		require.FailNow(p, "waited in vain for "+what, "%s", p.said())
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
