//go:build unix

package pgfifo_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/daemon"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A program is one of a test's own, in a folder of its own. It ends with the test.
type program struct {
	*testing.T
	*daemon.Daemon
	port int
}

// newProgram makes the folder. The signal ends the program at once.
func newProgram(t *testing.T, quit syscall.Signal) *program {
	t.Helper()
	d, err := daemon.New("")
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
