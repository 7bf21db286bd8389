package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// A mutant whose text has moved on is found by every test run; that each is caught, by the command mutants.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, theme := range Themes() {
		for _, m := range theme.Mutants {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				files, err := m.Files(root)
				require.NoError(t, err)
				for name, text := range files {
					before, err := os.ReadFile(filepath.Join(root, name))
					require.NoError(t, err)
					require.NotEqual(t, string(before), text, "the mutant changes nothing")
				}
			})
			require.False(t, seen[m.Name], "two mutants %s", m.Name)
			seen[m.Name] = true
			require.NotEmpty(t, m.Breaks, m.Name)
			require.NotEmpty(t, m.Edits, m.Name)
			require.NotEqual(t, len(m.Torture) > 0, m.Test.Run != "", "%s: the harness or a test", m.Name)
			require.Equal(t, len(m.Torture) > 0, len(m.By) > 0, m.Name)
		}
	}
}

var declared = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

func TestNamedTestsAreThere(t *testing.T) {
	t.Parallel()
	named := make(map[string][]string) // by package
	for _, theme := range Themes() {
		for _, m := range theme.Mutants {
			if m.Test.Run != "" {
				named[m.Test.Package] = append(named[m.Test.Package], strings.Split(m.Test.Run, "|")...)
			}
		}
	}
	for pkg, want := range named {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		require.NoError(t, err)
		var names []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, match := range declared.FindAllSubmatch(text, -1) {
				names = append(names, string(match[1]))
			}
		}
		require.Subset(t, names, want, pkg)
	}
}

func TestFilesRefuseTextThatIsNotThereOnce(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"no such text at all", "FROM pgfifo.jobs"} {
		m := Mutant{Name: "x", Edits: []Edit{{claimFile, old, ""}}}
		_, err := m.Files(root)
		require.ErrorContains(t, err, "not once")
	}
	m := Mutant{Name: "x", Edits: []Edit{{laneFile, "package lease", "pickage lease"}}}
	_, err := m.Files(root)
	require.ErrorContains(t, err, "expected")
}

func TestCaughtBy(t *testing.T) {
	t.Parallel()
	m := Mutant{By: []string{"I4", "I3"}}
	require.Equal(t, []string{"I3", "I4"}, m.CaughtBy([]string{"I9", "I3", "I4"}))
	require.Empty(t, m.CaughtBy([]string{"I3-lease"}))
}
