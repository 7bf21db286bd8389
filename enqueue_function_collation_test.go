package pgfifo_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// The columns of which a trigger makes a message may have any collation: the names in them are the same bytes for the
// function as for a client, and what is refused is refused with the same error.
func TestEnqueueFunctionCollations(t *testing.T) {
	s := newStaff(t, "")
	ctx, pool := t.Context(), s.as(s.roles.Producer)
	client := s.client(pool)
	s.exec("INSERT INTO pgfifo.queues VALUES ('q', 3600000000, true)") // a row that names are compared with
	for name, column := range s.collations() {
		s.exec("CREATE TABLE " + name + " (q text " + column + ", g text " + column + ", d text " + column + ")")
		s.exec("GRANT SELECT ON " + name + " TO PUBLIC")
		s.exec("INSERT INTO "+name+" VALUES ('q', $1, 'd')", name)
		enqueue := func(args string) (r fifo.Receipt, err error) {
			return r, pool.QueryRow(ctx, "SELECT e.* FROM "+name+", pgfifo.enqueue("+args+") e").Scan(
				&r.ID, &r.Duplicate, &r.Replaced)
		}
		first, err := enqueue("q, g, 'x', dedup_id => d")
		require.NoError(t, err, name)
		require.False(t, first.Duplicate)
		again, err := enqueue("q, g, 'y', dedup_id => d, replace => true")
		require.NoError(t, err, name)
		require.Equal(t, fifo.Receipt{ID: first.ID, Duplicate: true, Replaced: true}, again)
		byClient, err := client.Enqueue(ctx, fifo.Message{Queue: "q", GroupID: name, DedupID: "d"})
		require.NoError(t, err)
		require.Equal(t, fifo.Receipt{ID: first.ID, Duplicate: true}, byClient[0], name)
		other, err := enqueue("q, upper(g), 'x', dedup_id => d, replace => true")
		require.NoError(t, err, name)
		require.False(t, other.Duplicate, "%s: another group", name)
		_, err = enqueue(`upper(q), g, 'x', '{"h": {"base64": "AAA="}}', dedup_id => d`)
		require.NoError(t, err, name)

		var locked bool
		require.NoError(t, pool.QueryRow(ctx, `SELECT EXISTS (
				SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'
				AND (classid::bigint << 32) | objid::bigint = hashtextextended('pgfifo q/' || e.name, 1))
			FROM (SELECT $1 || left(pgfifo.enqueue(q, g, 'x', commit_order => true)::text, 0) AS name FROM `+name+
			` OFFSET 0) e`, name).Scan(&locked))
		require.True(t, locked, "%s: in the order of commits, it waits for clients", name)

		for _, bad := range []string{`q || E'\n', g, 'x'`, `q, g || E'\n', 'x'`, `q, g, 'x', dedup_id => d || E'\n'`} {
			_, err = enqueue(bad)
			var refused *pgconn.PgError
			require.ErrorAs(t, err, &refused, "%s: %s", name, bad)
			require.Equal(t, "22023", refused.Code, "%s: %v", name, refused)
		}
	}
}

// collations makes some that differ from those of the tables, and returns what a column has to say for them. Only with
// ICU there are collations in which different texts are equal.
func (s *staff) collations() map[string]string {
	s.Helper()
	s.exec("CREATE COLLATION other (provider = libc, locale = 'C')")
	list := map[string]string{"plain": "", "c": `COLLATE "C"`, "libc": "COLLATE other"}
	if s.number("SELECT count(*) FROM pg_collation WHERE collprovider = 'i'") == 0 {
		s.Log("this server has no ICU")
		return list
	}
	for name, says := range map[string]string{
		"german":   "locale = 'de'",
		"caseless": "locale = 'und-u-ks-level2', deterministic = false",
	} {
		s.exec("CREATE COLLATION " + name + " (provider = icu, " + says + ")")
		list["icu_"+name] = "COLLATE " + name
	}
	return list
}
