package schema

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"pgfifo", "public", "Weird-Schema", `o"dd`, "it's", "a.b", "pg", "ünï", " ", strings.Repeat("x", 63),
	} {
		n, err := Parse(name)
		require.NoError(t, err, name)
		require.Equal(t, name, n.String())
	}
	for _, name := range []string{
		"pg_", "pg_fifo", "a$block$b", "$runs$", "a\x00b", "\xff", strings.Repeat("x", 64), strings.Repeat("ü", 32),
	} {
		_, err := Parse(name)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}

// A schema's name cannot end the text of any function of the schema's.
func TestQuoteTags(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(os.DirFS("../.."), "migrations/sql/*.sql")
	require.NoError(t, err)
	count := 0
	for _, file := range files {
		sql, err := fs.ReadFile(os.DirFS("../.."), file)
		require.NoError(t, err)
		for _, tag := range regexp.MustCompile(`\$\w*\$`).FindAllString(string(sql), -1) {
			count++
			_, err := Parse("a" + tag + "b")
			require.ErrorIs(t, err, ErrInvalid, "%s: %s", file, tag)
		}
	}
	require.Positive(t, count)
}

func TestDefault(t *testing.T) {
	t.Parallel()
	empty, err := Parse("")
	require.NoError(t, err)
	named, err := Parse(Default)
	require.NoError(t, err)
	for _, n := range []Name{{}, empty, named} {
		require.Equal(t, "pgfifo", n.String())
		require.Equal(t, `"pgfifo"`, n.Ident())
		require.Equal(t, "SELECT FROM pgfifo.jobs", n.Qualify("SELECT FROM pgfifo.jobs"))
	}
}

func TestQualify(t *testing.T) {
	t.Parallel()
	const sql = "SELECT j.id FROM pgfifo.jobs j, pgfifo.pauses\n"
	for name, want := range map[string]string{
		"other":          `SELECT j.id FROM "other".jobs j, "other".pauses` + "\n",
		"Weird-Schema":   `SELECT j.id FROM "Weird-Schema".jobs j, "Weird-Schema".pauses` + "\n",
		`o"dd`:           `SELECT j.id FROM "o""dd".jobs j, "o""dd".pauses` + "\n",
		"pgfifo.pgfifo.": `SELECT j.id FROM "pgfifo.pgfifo.".jobs j, "pgfifo.pgfifo.".pauses` + "\n",
		"$1":             `SELECT j.id FROM "$1".jobs j, "$1".pauses` + "\n",
	} {
		n, err := Parse(name)
		require.NoError(t, err)
		require.Equal(t, want, n.Qualify(sql))
	}
	n, err := Parse("other")
	require.NoError(t, err)
	require.Equal(t, `SELECT '"other" ' || q, 'a pgfifo b'`, n.Qualify("SELECT 'pgfifo ' || q, 'a pgfifo b'"))
	n, err = Parse(`it's "it"`)
	require.NoError(t, err)
	require.Equal(t, `SELECT nextval('"it''s ""it""".ids')`, n.Qualify("SELECT nextval('pgfifo.ids')"))
}

var (
	// A comment, a string, a quoted identifier; what follows "pgfifo." in any of them would be rewritten as well, and
	// with a schema name of the right kind would end it.
	quoted = regexp.MustCompile(`--[^\n]*|'[^']*'|"[^"]*"`)

	word      = regexp.MustCompile(`(?i)pgfifo`)
	qualifier = regexp.MustCompile(`(?:^|[^\w."$])pgfifo\.[a-z_]+`)
)

// misuses returns the places of a statement that Qualify would rewrite wrongly, or not at all.
func misuses(sql string) []string {
	var found []string
	for _, q := range quoted.FindAllString(sql, -1) {
		rest := strings.TrimPrefix(strings.TrimPrefix(q, "'"+Default+"."), "'"+Default+" ")
		if strings.Contains(rest, Default+".") || strings.Contains(rest, "'"+Default+" ") {
			found = append(found, q)
		}
	}
	rest := qualifier.ReplaceAllString(quoted.ReplaceAllString(sql, " '' "), " ")
	return append(found, word.FindAllString(rest, -1)...)
}

func TestMisuses(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]int{
		"SELECT pgfifo.f(1) FROM pgfifo.jobs,pgfifo.pauses -- of pgfifo": 0,
		"pgfifo.jobs":                       0,
		"SELECT 'made by pgfifo'":           0,
		"SELECT 1 -- not pgfifo.jobs":       1,
		"SELECT 'pgfifo.jobs'::regclass":    0, // Qualify knows such a name
		"SELECT 'pgfifo ' || 'key'":         0,
		"SELECT 1 -- the key 'pgfifo x'":    1,
		"SELECT 'of pgfifo.jobs'":           1,
		`SELECT FROM "pgfifo.jobs"`:         1,
		`SELECT FROM "pgfifo".jobs`:         0, // see TestStatements
		"CREATE SCHEMA pgfifo":              1,
		"SELECT FROM PGFIFO.jobs":           1,
		"SELECT FROM my_pgfifo.jobs":        1,
		"SELECT FROM pgfifo . jobs":         1,
		"SELECT FROM db.pgfifo.jobs":        1,
		"INSERT INTO pgfifo.jobs, pgfifo.*": 1,
	} {
		require.Len(t, misuses(sql), want, sql)
	}
}

// Every embedded statement of the library, wherever it is, names the schema in a way that Qualify can replace.
func TestStatements(t *testing.T) {
	t.Parallel()
	count, root := 0, os.DirFS("../..")
	require.NoError(t, fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || path.Base(path.Dir(file)) != "sql" || path.Ext(file) != ".sql" {
			return err
		}
		sql, err := fs.ReadFile(root, file)
		require.NoError(t, err)
		count++
		require.Empty(t, misuses(string(sql)), file)
		require.NotContains(t, string(sql), `"pgfifo"`, file)
		require.NotContains(t, string(sql), "/*", "%s: such a comment would have to be looked into, too", file)
		return nil
	}))
	require.Positive(t, count)
}

var (
	byName   = regexp.MustCompile(`\b(?:statement|settles)\("([a-z_]+)"\)`)
	prepared = regexp.MustCompile(`"pgfifo_([a-z_]+)"`)
)

// What a package names is there, and what is there is named, or expires something.
func TestStatementsAreNamed(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	for _, dir := range []string{"fifo", "internal/lease", "internal/schedule"} {
		there, named := make(map[string]bool), make(map[string]bool)
		files, err := fs.Glob(root, dir+"/sql/*.sql")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			there[strings.TrimSuffix(path.Base(file), ".sql")] = true
		}
		files, err = fs.Glob(root, dir+"/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := fs.ReadFile(root, file)
			require.NoError(t, err)
			for _, match := range byName.FindAllSubmatch(source, -1) {
				named[string(match[1])] = true
				require.True(t, there[string(match[1])], "%s: %s", file, match[0])
			}
			for _, match := range prepared.FindAllSubmatch(source, -1) {
				named[string(match[1])] = true
			}
		}
		for name := range there {
			require.True(t, named[name] || strings.HasPrefix(name, "expire_"), "%s: %s.sql", dir, name)
		}
	}
}
