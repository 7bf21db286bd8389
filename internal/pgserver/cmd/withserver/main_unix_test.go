//go:build unix

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatusIsTheCommands(t *testing.T) {
	for script, want := range map[string]int{
		`test -n "$DATABASE_URL"`: 0,
		`exit 3`:                  3,
		`kill -KILL $$`:           128 + 9,
		`trap 'exit 4' TERM; kill -TERM $PPID; while :; do sleep 0.01; done`: 4, // passed on
	} {
		status, err := run([]string{"sh", "-c", script})
		require.NoError(t, err, script)
		require.Equal(t, want, status, script)
	}
}

func TestCommandThatIsNotThere(t *testing.T) {
	status, err := run([]string{"/nowhere/command"})
	require.ErrorContains(t, err, "/nowhere/command")
	require.NotZero(t, status)
}
