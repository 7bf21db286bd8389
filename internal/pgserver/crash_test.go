package pgserver

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A halted server is gone as after a crash, and comes back where it was, with what was committed and nothing else.
func TestHaltAndResume(t *testing.T) {
	t.Parallel()
	srv := startLocal(t, &Options{Durable: true})
	if srv == nil {
		return
	}
	require.True(t, srv.CanCrash())
	require.FileExists(t, srv.Log)
	ctx := t.Context()
	exec := func(conn *pgx.Conn, sql string) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
	}
	conn, err := pgx.Connect(ctx, srv.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	exec(conn, "CREATE TABLE t (n integer)")
	exec(conn, "INSERT INTO t VALUES (1)")
	exec(conn, "BEGIN")
	exec(conn, "INSERT INTO t VALUES (2)")
	for range 2 {
		require.NoError(t, srv.Halt())
		require.Error(t, conn.Ping(ctx), "its sessions have ended")
		_, err = show(ctx, srv.URL, "server_version")
		require.Error(t, err)
		require.NoError(t, srv.Resume(ctx))
		conn, err := pgx.Connect(ctx, srv.URL)
		require.NoError(t, err)
		var n, highest int
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*), max(n) FROM t").Scan(&n, &highest))
		require.Equal(t, []int{1, 1}, []int{n, highest})
		require.NoError(t, conn.Close(ctx))
	}
}

func TestHaltOfSomebodyElsesServer(t *testing.T) {
	t.Parallel()
	srv := &Server{URL: "postgres://elsewhere"}
	require.False(t, srv.CanCrash())
	require.ErrorIs(t, srv.Halt(), ErrNoCrash)
	require.ErrorIs(t, srv.Resume(t.Context()), ErrNoCrash)
}
