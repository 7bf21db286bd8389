package pgfifo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/overlay"
	"github.com/pgfifo/pgfifo/migrations"
)

// A made-up step behind the latest one, as the rules for steps want it: a column that may be null, and a table.
const (
	nextUp = `
		ALTER TABLE pgfifo.jobs ADD COLUMN next integer;
		CREATE TABLE pgfifo.next ();`
	nextDown = `
		DROP TABLE pgfifo.next;
		ALTER TABLE pgfifo.jobs DROP COLUMN next;`
	says = `
		CREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer LANGUAGE sql AS 'SELECT %d';
		CREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql AS 'SELECT %d';`
)

// nextRelease builds this test binary once more as a release with that step, whose producers write to the column.
func nextRelease(t *testing.T) (program string) {
	t.Helper()
	if testing.Short() {
		t.Skip("not in -short: it builds another release")
	}
	const latest = migrations.Latest
	texts := map[string]string{
		fmt.Sprintf("migrations/sql/%04d_next.up.sql", latest+1): nextUp + fmt.Sprintf(says, latest+1, latest),
		fmt.Sprintf("migrations/sql/%04d_next.down.sql", latest+1): nextDown +
			fmt.Sprintf(says, latest, max(latest-1, 1)),
	}
	for file, changes := range map[string][]string{
		"migrations/migrations.go": {
			fmt.Sprintf("const Latest = %d\n", latest), fmt.Sprintf("const Latest = %d\n", latest+1),
		},
		"fifo/sql/enqueue.sql": {
			"INSERT INTO pgfifo.jobs (queue, ", "INSERT INTO pgfifo.jobs (next, queue, ",
			"SELECT m.queue, ", "SELECT 1, m.queue, ",
		},
	} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(b)
		for i := 0; i < len(changes); i += 2 {
			require.Equal(t, 1, strings.Count(text, changes[i]), "%s: %s", file, changes[i])
			text = strings.Replace(text, changes[i], changes[i+1], 1)
		}
		texts[file] = text
	}
	return buildWith(t, texts)
}

// buildWith builds this test binary once more, with other texts in the place of some files, or skips the test.
func buildWith(t *testing.T, texts map[string]string) (program string) {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to build this test binary once more: ", err)
	}
	dir, all := t.TempDir(), make(map[string]string)
	for file, text := range texts {
		path, err := filepath.Abs(filepath.FromSlash(file))
		require.NoError(t, err)
		all[path] = text
	}
	list, err := overlay.Write(dir, all)
	require.NoError(t, err)
	program = filepath.Join(dir, "other.test.exe")
	build := exec.CommandContext(t.Context(), tool, "test", "-c", "-overlay", list, "-o", program, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
