package torture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) {
	Main()
	pgtest.Main(m)
}

// survive makes a run in which no promise is broken.
func survive(t *testing.T, cfg Config) *Report {
	t.Helper()
	cfg.Logf = t.Logf
	report, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	t.Log("\n" + report.String())
	require.Empty(t, report.Violations, "the logs are in %s", report.Artefacts)
	return report
}

// The short profile, on a server of its own. Its seed is another one each time: a failure tells it.
func TestShort(t *testing.T) {
	t.Parallel()
	cfg, err := Profile("short")
	require.NoError(t, err)
	cfg.Jobs /= 3 // all of its faults, with less work between them
	report := survive(t, cfg)
	require.Equal(t, cfg.Faults["kills"], report.Faults[faultKill])
	require.Equal(t, cfg.Faults["terminates"], report.Faults[faultTerminate])
	require.Greater(t, report.Done, cfg.Jobs/2)
}
