package pgfifo_test

import (
	"encoding/json"
	"errors"
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

var errOtherGo = errors.New("this release of Go reads its clock in another way than the test knows")

// overlay writes the files, and the list of what they replace, and returns the path of that.
func overlay(dir, goroot, here string) (string, error) {
	std := filepath.Join(goroot, "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", err
	}
	patched, count := string(source), 0
	for _, reading := range readings {
		count += strings.Count(patched, reading)
		patched = strings.Replace(patched, reading, reading+"\tsec += wallJump.Load()\n", 1)
	}
	if count != 1 {
		return "", errOtherGo
	}
	replace := make(map[string]string)
	for path, text := range map[string]string{
		filepath.Join(std, "time.go"):                   patched,
		filepath.Join(std, "jump.go"):                   jumpInTime,
		filepath.Join(here, "clock_jump_added_test.go"): jumpInTest,
	} {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// inJumpingProcess runs the calling test once more in a process whose wall clock can jump, on the same server.
func inJumpingProcess(t *testing.T) {
	t.Helper()
	if os.Getenv("PGFIFO_TEST_CLOCK") == "" {
		t.Skip("PGFIFO_TEST_CLOCK is not set: it builds Go's standard library once more")
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to build a process with another clock: ", err)
	}
	goroot, err := exec.CommandContext(t.Context(), tool, "env", "GOROOT").Output()
	require.NoError(t, err)
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	list, err := overlay(dir, strings.TrimSpace(string(goroot)), here)
	if errors.Is(err, errOtherGo) {
		t.Skip(err)
	}
	require.NoError(t, err)
	exe := filepath.Join(dir, "jumping.test.exe")
	out, err := exec.CommandContext(t.Context(), tool, "test", "-c", "-overlay", list, "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), pgserver.EnvSource+"=url", pgserver.EnvURL+"="+pgtest.URL(t))
	out, err = cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}
