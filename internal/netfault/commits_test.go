package netfault_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// ways are the ways in which a client can say COMMIT.
var ways = map[string]func(b *bench, conn *pgx.Conn) error{
	"simple, with others": func(b *bench, conn *pgx.Conn) error {
		return conn.PgConn().Exec(b.Context(), "SELECT 1; commit work; SELECT 2").Close()
	},
	"prepared": func(b *bench, conn *pgx.Conn) error {
		stmt, err := conn.PgConn().Prepare(b.Context(), "c", "COMMIT", nil)
		require.NoError(b, err)
		_, err = conn.PgConn().ExecStatement(b.Context(), stmt, nil, nil, nil).Close()
		return err
	},
	"and chain, in a pipeline": func(b *bench, conn *pgx.Conn) error {
		stmt, err := conn.PgConn().Prepare(b.Context(), "c", "COMMIT AND CHAIN", nil)
		require.NoError(b, err)
		p := conn.PgConn().StartPipeline(b.Context())
		p.SendQueryParams("SELECT 1", nil, nil, nil, nil)
		p.SendQueryStatement(stmt, nil, nil, nil)
		p.SendQueryParams("SELECT 2", nil, nil, nil, nil)
		require.NoError(b, p.Sync())
		for err == nil {
			var res any
			if res, err = p.GetResults(); err != nil || res == nil {
				break
			}
			if r, ok := res.(*pgconn.ResultReader); ok {
				_, err = r.Close()
			}
		}
		_ = p.Close()
		return err
	},
}

func TestLoseCommits(t *testing.T) {
	for name, commit := range ways {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			conn := b.connect()
			_, err := conn.Exec(t.Context(), "BEGIN")
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), "INSERT INTO notes VALUES (1)")
			require.NoError(t, err)
			b.LoseCommits(1)
			b.requireBroken(conn, commit(b, conn))
			require.True(t, b.has(1), "the server has committed")
			require.Equal(t, 1, b.LostCommits())

			conn = b.connect() // the next one's arrives
			_, err = conn.Exec(t.Context(), "BEGIN")
			require.NoError(t, err)
			require.NoError(t, commit(b, conn))
			require.Equal(t, 1, b.LostCommits())
		})
	}
}

// What is no COMMIT, or does not commit, is answered.
func TestLoseCommitsOnly(t *testing.T) {
	b := newBench(t)
	conn := b.connect()
	b.LoseCommits(1)
	for _, sql := range []string{
		"BEGIN; SELECT 1; ROLLBACK",
		"INSERT INTO notes VALUES (1) -- COMMIT",
		"PREPARE c AS SELECT 'COMMIT'; EXECUTE c",
		"DO 'BEGIN COMMIT; END'",
	} {
		require.NoError(t, conn.PgConn().Exec(t.Context(), sql).Close(), sql)
	}
	_, err := conn.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "SELECT 1/0")
	require.Error(t, err)
	tag, err := conn.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.Equal(t, "ROLLBACK", tag.String())
	require.Zero(t, b.LostCommits())
}

func TestLoseReplies(t *testing.T) {
	b := newBench(t)
	conn := b.connect()
	const insert = "INSERT INTO notes VALUES ($1) RETURNING n"
	add := func(n int) error { return conn.QueryRow(t.Context(), insert, n).Scan(&n) }
	b.LoseReplies(1, "INSERT 0 1")
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM notes").Scan(new(int)), "another statement")
	require.Error(t, conn.QueryRow(t.Context(), "INSERT INTO notes VALUES (1 / $1::integer)", 0).Scan(new(int)))
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, tx.QueryRow(t.Context(), insert, 2).Scan(new(int)), "in a transaction it commits nothing")
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, b.LostReplies())

	b.requireBroken(conn, add(3))
	require.True(t, b.has(3))
	require.Equal(t, 1, b.LostReplies())
	conn = b.connect()
	require.NoError(t, add(4))
}
