package pgfifo_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

// Passwords are in no error and no log line, whatever is wrong with the connection.
func TestPasswordsAreNotLogged(t *testing.T) {
	t.Parallel()
	v := newSieve(t)
	base := pgtest.URL(t)
	owner := pgtest.Connect(t, base)
	unreachable, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := unreachable.Addr().String()
	require.NoError(t, unreachable.Close())

	role := requirePassword(t, owner)
	wrong := withUser(t, base, role, passwordCanary)
	for name, dsn := range map[string]string{
		"wrong password": wrong,
		"no such role":   withUser(t, base, "nobody-of-that-name", passwordCanary),
		"no database": strings.Replace(withUser(t, base, "postgres", passwordCanary), "/pgfifo_test",
			"/none_pgfifo_test", 1),
		"unreachable":  "postgres://u:" + passwordCanary + "@" + address + "/db?connect_timeout=5",
		"no TLS":       strings.Replace(wrong, "sslmode=disable", "sslmode=require", 1),
		"no such host": "postgres://u:" + passwordCanary + "@host.invalid/db?connect_timeout=5",
		"key and value": "host=" + strings.Replace(address, ":", " port=", 1) + " user=u password=" +
			passwordCanary + " dbname=db",
	} {
		pool, err := pgxpool.New(t.Context(), dsn)
		require.NoError(t, err, name)
		t.Cleanup(pool.Close)
		client := fifo.Open(pool, &fifo.Config{Logger: v.logger()})
		w := &fifo.Worker{Client: client}
		w.Handle("q", func(context.Context, *fifo.Job) error { return nil })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = client.Enqueue(ctx, message("g", task{}))
		v.failed(name+": enqueue", err)
		v.failed(name+": run", w.Run(ctx))
		_, err = w.RunOne(ctx)
		v.failed(name+": run one", err)
		_, err = client.Jobs(ctx, fifo.Page{})
		v.failed(name+": jobs", err)
		_, err = client.Groups(ctx, fifo.Page{})
		v.failed(name+": list", err)
		v.failed(name+": up", migrations.Up(ctx, pool, nil))
		v.failed(name+": grant", migrations.Grant(ctx, pool, migrations.Roles{}, nil))
		require.NoError(t, ctx.Err(), "%s: it was an error, and no end of patience", name)
		cancel()
		require.NoError(t, client.Close())
	}

	// The worker dials by itself, and says in the log what it could not: here the password stops being right.
	bad := owner.Config()
	bad.ConnConfig.User, bad.ConnConfig.Password = role, passwordCanary
	dialer := &lease.Dialer{Pool: bad, Logger: v.logger()}
	_, err = dialer.Dial(t.Context())
	v.failed("dial", err)
	_, err = dialer.Connect(t.Context())
	v.failed("connect", err)
}

func withUser(t *testing.T, dsn, user, password string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// requirePassword returns a role whose password the server asks for, even where it trusts everybody else.
func requirePassword(t *testing.T, owner *pgxpool.Pool) string {
	t.Helper()
	ctx := t.Context()
	var role, file string
	require.NoError(t,
		owner.QueryRow(ctx, "SELECT current_database() || '-asked', current_setting('hba_file')").Scan(&role, &file))
	_, err := owner.Exec(ctx, "CREATE ROLE "+ident(role)+" LOGIN PASSWORD 'right'")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := owner.Exec(context.Background(), "DROP ROLE "+ident(role))
		require.NoError(t, err)
	})
	if asks(t, owner, role) {
		return role
	}
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	var rules string // read before COPY, which empties the file first
	err = owner.QueryRow(ctx, "SELECT pg_read_file($1)", file).Scan(&rules)
	if err == nil {
		rules = "host all " + ident(role) + " all scram-sha-256\n" + rules
		_, err = owner.Exec(ctx, "COPY (SELECT string_to_table("+quote(rules)+", E'\\n')) TO "+quote(file))
	}
	if err == nil {
		_, err = owner.Exec(ctx, "SELECT pg_reload_conf()")
	}
	if err != nil {
		t.Skipf("the server trusts everybody, and its rules cannot be changed: %v", err)
	}
	require.True(t, pgtest.Wait(patience, func() bool { return asks(t, owner, role) }))
	return role
}

// asks reports whether the server refuses a wrong password.
func asks(t *testing.T, owner *pgxpool.Pool, role string) bool {
	t.Helper()
	cfg := owner.Config().ConnConfig
	cfg.User, cfg.Password = role, "wrong"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err == nil {
		require.NoError(t, conn.Close(t.Context()))
		return false
	}
	require.ErrorContains(t, err, "28P01")
	return true
}
