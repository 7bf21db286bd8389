package torture

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// The short profile, on a server of its own. Its seed is another one each time: a failure tells it.
func TestShort(t *testing.T) {
	t.Parallel()
	cfg, err := Profile("short")
	require.NoError(t, err)
	cfg.Logf = t.Logf
	report, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	t.Log("\n" + report.String())
	require.Empty(t, report.Violations, "the logs are in %s", report.Artefacts)
	require.Zero(t, report.Checked["none"])
	for name, count := range map[string]int{faultKill: cfg.Kills, faultTerminate: cfg.Terminates} {
		require.Equal(t, count, report.Faults[name], name)
	}
	require.Greater(t, report.Done, cfg.Jobs/2)
}
