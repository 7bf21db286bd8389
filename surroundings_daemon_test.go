//go:build unix

package pgfifo_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A daemon is a program of a test's own, in a folder of its own, run as a user that is not root. It ends with the test,
// also with one that is killed.
type daemon struct {
	*testing.T
	dir    string
	quit   syscall.Signal // ends the program at once
	cred   *syscall.Credential
	alive  io.WriteCloser // to the shell in front of it
	exited chan struct{}
}

// newDaemon makes the folder. Not testing's TempDir: its parent is closed to others.
func newDaemon(t *testing.T, quit syscall.Signal) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgfifo-surroundings-")
	require.NoError(t, err)
	d := &daemon{T: t, dir: dir, quit: quit, cred: otherUser(t)}
	t.Cleanup(func() {
		d.end(quit)
		if t.Failed() {
			t.Logf("the log of %s: %s", dir, d.log())
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	if d.cred != nil {
		require.NoError(t, os.Chown(dir, int(d.cred.Uid), int(d.cred.Gid)))
	}
	return d
}

// otherUser returns who runs what refuses to be run by root, or nil for ourselves.
func otherUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		require.NoError(t, err)
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		require.NoError(t, err)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Skip("skipped: we are root, and there is no user postgres or nobody to run servers as")
	return nil
}

// run runs a program to its end.
func (d *daemon) run(program string, arg ...string) {
	d.Helper()
	cmd := exec.Command(program, arg...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.cred}
	out, err := cmd.CombinedOutput()
	require.NoError(d, err, "%s: %s", program, out)
}

// start runs a program in the background. The shell in front of it ends it, and removes the folder, when our end of the
// pipe is closed before we have said that it has ended: when we are killed.
func (d *daemon) start(program string, arg ...string) {
	d.Helper()
	const script = `quit=$1; shift; exec 3<&0; "$@" </dev/null 3<&- & pid=$!; echo $pid >pid
		{ read -r told <&3 || { kill -$quit $pid; sleep 2; rm -rf "$PWD"; }; } 2>/dev/null & wait $pid`
	cmd := exec.Command("sh", append([]string{"-c", script, "sh", strconv.Itoa(int(d.quit)), program}, arg...)...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: d.cred}
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(d, err)
	cmd.Stdout, cmd.Stderr = log, log
	in, alive, err := os.Pipe() // not StdinPipe, which ends with the program
	require.NoError(d, err)
	cmd.Stdin, d.alive = in, alive
	require.NoError(d, cmd.Start())
	require.NoError(d, log.Close())
	require.NoError(d, in.Close())
	d.exited = make(chan struct{})
	go func() {
		defer close(d.exited)
		_ = cmd.Wait() // how it ended, its log says
	}()
}

// end sends the program a signal and waits until it is gone.
func (d *daemon) end(sig syscall.Signal) {
	d.Helper()
	if d.exited == nil {
		return
	}
	defer func() {
		_, _ = io.WriteString(d.alive, "ended\n")
		_ = d.alive.Close()
	}()
	if d.ended() { // its id may be somebody else's by now
		return
	}
	text, err := os.ReadFile(filepath.Join(d.dir, "pid"))
	require.NoError(d, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(d, err)
	_ = syscall.Kill(pid, sig) // it may have ended just now
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-d.exited:
	case <-timer.C:
		require.FailNow(d, "a server does not end", "%s", d.log())
	}
}

// ended tells whether the program is gone.
func (d *daemon) ended() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

func (d *daemon) log() string {
	text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(text[max(0, len(text)-4000):])
}

// freePort returns a port that nothing listened on a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}

// await waits for a condition.
func (d *daemon) await(what string, cond func() bool) {
	d.Helper()
	if !pgtest.Wait(3*patience, cond) {
		require.FailNow(d, "waited in vain for "+what, "%s", d.log())
	}
}
