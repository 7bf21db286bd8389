package pgfifo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// jumpWall moves the wall clock of this process to so many seconds from the system's, and leaves the monotonic one
// alone. It is nil but in a test binary that was built with such a clock.
var jumpWall func(seconds int64)

// No system has a wall clock per process that Go's runtime would look at. But Go can build a program with another file
// in the place of one of its own: package time with an offset.
const (
	jumpInTime = `package time

import "sync/atomic"

var wallJump atomic.Int64

// JumpWall is a test's.
func JumpWall(seconds int64) { wallJump.Store(seconds) }
`
	jumpInTest = `package pgfifo_test

import "time"

func init() { jumpWall = time.JumpWall }
`
)

// readings are how Now reads the clock, in one release of Go or another.
var readings = []string{"\tsec, nsec, mono := runtimeNow()\n", "\tsec, nsec, mono := now()\n"}

// jumping returns the files of a test binary with such a clock, or skips the test.
func jumping(t *testing.T) map[string]string {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command to build a process with another clock: ", err)
	}
	std := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	require.NoError(t, err)
	patched, count := string(source), 0
	for _, reading := range readings {
		count += strings.Count(patched, reading)
		patched = strings.Replace(patched, reading, reading+"\tsec += wallJump.Load()\n", 1)
	}
	if count != 1 {
		t.Skip("this release of Go reads its clock in another way than the test knows")
	}
	return map[string]string{
		filepath.Join(std, "time.go"): patched,
		filepath.Join(std, "jump.go"): jumpInTime,
		"clock_jump_added_test.go":    jumpInTest,
	}
}

// inJumpingProcess runs the calling test once more in a process whose wall clock can jump, on the same server.
func inJumpingProcess(t *testing.T) {
	t.Helper()
	if os.Getenv("PGFIFO_TEST_CLOCK") == "" {
		t.Skip("PGFIFO_TEST_CLOCK is not set: it builds Go's standard library once more")
	}
	exe := buildWith(t, jumping(t))
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), pgserver.EnvSource+"=url", pgserver.EnvURL+"="+pgtest.URL(t))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}
