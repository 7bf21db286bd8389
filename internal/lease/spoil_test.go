package lease

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/migrations"
)

func TestSpoils(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"":                                  false,
		"SELECT 1":                          false,
		"set":                               true,
		"SET statement_timeout = 1":         true,
		" \n;set\tSESSION search_path TO x": true,
		"SET ROLE nobody":                   true,
		"SET LOCAL statement_timeout = 1":   false,
		"set local role nobody":             false,
		"SET CONSTRAINTS ALL DEFERRED":      false,
		"SET TRANSACTION READ ONLY":         false,
		"RESET ALL":                         true,
		"reset role":                        true,
		"DISCARD ALL":                       true,
		"Deallocate all":                    true,
		"LISTEN x":                          true,
		"DECLARE c CURSOR FOR SELECT 1":     false,
		"declare c cursor with Hold for":    true,
		"UNLISTEN *":                        false,
		"SETTING":                           false,
		"UPDATE t SET a = 1":                false,
		"/* a comment */ -- and another\n RESET ALL": true, "-- RESET ALL": false, "/*": false,
		"SAVEPOINT a; SET LOCAL jit = DEFAULT": false,
		"SELECT 1; SET timezone = 'UTC'":       true,
		"SELECT 1;/* ; */ ; RESET ALL":         true,
		"SELECT 1; SELECT 2;":                  false,
		"SELECT 'a;b'; UPDATE t SET a = 1":     false,
		"/* a /* b */ c */ RESET ALL":          true,
		"/* a /* b */ RESET ALL":               false,
		"-- a comment\rRESET ALL":              true,
		"\f\vRESET ALL":                        true,
		"SET local.x = 1":                      true,
		"SET local1.x = 1":                     true,
		"SELECT set_config('a.b', 'c', false)": true,
		"SELECT\nSET_CONFIG($1, $2, FALSE)":    true,
		"SELECT set_config('a.b', $1, true)":   false,
		"SELECT false":                         false,
	} {
		require.Equal(t, want, spoils(sql), "%q", sql)
	}
}

func TestSpoiledLane(t *testing.T) {
	exec := func(sql string, args ...any) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), sql, args...); return err }
	}
	raw := func(sql string) func(pgx.Tx) error {
		return func(tx pgx.Tx) error { _, err := tx.Conn().PgConn().Exec(t.Context(), sql).ReadAll(); return err }
	}
	type row struct {
		run  func(tx pgx.Tx) error
		want bool
	}
	pgtest.OverNamed(t, map[string]row{
		"nothing":        {exec("SELECT 1"), false},
		"query":          {exec("SET work_mem = '1MB'"), true},
		"behind another": {exec("SELECT 1; SET work_mem = '1MB'"), true},
		"prepared": {func(tx pgx.Tx) error {
			if _, err := tx.Prepare(t.Context(), "x", "SET work_mem = '1MB'"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "x")
			return err
		}, true},
		"encoding, by a function":     {exec("SELECT set_config('client_encoding', 'LATIN1', false)"), true},
		"query of the raw connection": {raw("SET work_mem = '1MB'"), true},
		"statement of the raw connection": {func(tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().ExecParams(t.Context(), "SET work_mem = '1MB'", nil, nil, nil, nil).Close()
			return err
		}, true},
		"prepared on the raw connection": {func(tx pgx.Tx) error {
			_, err := tx.Conn().PgConn().Prepare(t.Context(), "x", "LISTEN x", nil)
			return err
		}, true},
		"setting, by a function":     {exec("SELECT set_config('a.b', 'c', false)"), true},
		"ended by hand":              {raw("COMMIT; BEGIN; SAVEPOINT pgfifo"), true},
		"setting of the transaction": {exec("SELECT set_config('a.b', $1, true)", "c"), false},
		"batch": {func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue("RESET ALL")
			return tx.SendBatch(t.Context(), b).Close()
		}, true},
	}, func(t *testing.T, name string, x row) {
		s, l, h := held(t, 1)
		require.NoError(t, l.Lend(t.Context(), func() { require.NoError(t, x.run(s.pgxTx(h))) }))
		_, _, err := l.Step(t.Context(), succeed(h), nil)
		require.Equal(t, name == "ended by hand", err != nil, err)
		require.Equal(t, x.want, l.Spoiled())
	})
}

// How the application has its connections made spoils nothing.
func TestSessionMadeByTheApplication(t *testing.T) {
	s := newStage(t)
	d := s.dialer(Bounds{})
	d.Pool.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET work_mem = '1MB'")
		return err
	}
	require.False(t, s.dial(d).Spoiled())
}

// Nobody looks into a function: what it sets for the session, and the next job would fail of, is put back.
func TestSettingLeftByAFunction(t *testing.T) {
	pgtest.OverNamed(t, map[string]string{
		"statement_timeout": "100", "lock_timeout": "100", "idle_in_transaction_session_timeout": "100",
		"search_path": "nowhere", "role": "pg_monitor", "standard_conforming_strings": "off",
	}, func(t *testing.T, setting string, value string) {
		s := newStage(t)
		s.Exec("CREATE FUNCTION leave(name text, value text) RETURNS void LANGUAGE sql " +
			"AS 'SELECT set_config(name, value, false)'")
		ids := s.Enqueue(2, "a")
		l := s.lane()
		show := func(tx pgx.Tx) (value string) {
			require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&value))
			return value
		}
		h := s.claim(l, "a")
		var was, is string
		require.NoError(t, l.Lend(t.Context(), func() {
			tx := s.pgxTx(h)
			was = show(tx)
			s.do(tx, "SELECT leave($1, $2)", setting, value)
			require.NotEqual(t, was, show(tx))
		}))
		h = s.step(l, succeed(h), &Request{Key: group("a")})
		require.Equal(t, ids[1], h.ID)
		require.NoError(t, l.Lend(t.Context(), func() { is = show(s.pgxTx(h)) }))
		require.Equal(t, was, is)
		s.end(l, succeed(h)...)
	})
}

// A session on which claims fail is closed, whatever a handler has made of it.
func TestUselessSessionIsClosed(t *testing.T) {
	pgtest.OverEach(t, []string{
		"DEALLOCATE ALL", "SET ROLE pg_monitor", "BEGIN READ ONLY; SELECT",
	}, func(t *testing.T, sql string) {
		s := newStage(t)
		s.Enqueue(2, "a")
		l := s.lane()
		h := s.claim(l, "a")
		s.end(l, succeed(h)...) // so that the settling statements are prepared
		_, err := l.Conn().Exec(t.Context(), sql)
		require.NoError(t, err)
		_, _, err = l.Step(t.Context(), nil, &Request{Key: group("a")})
		require.Error(t, err)
		require.True(t, l.Closed())
	})
}

// What a lane prepares of its own spoils no session, whatever the schema is called.
func TestSchemaThatSpoils(t *testing.T) {
	s := newStage(t)
	const name = "a;reset"
	require.NoError(t, migrations.Up(t.Context(), s.Pool, &migrations.Config{Schema: name}))
	d := s.dialer(Bounds{})
	var err error
	d.Schema, err = schema.Parse(name)
	require.NoError(t, err)
	l := s.dial(d)
	_, _, err = l.Step(t.Context(), nil, &Request{Key: group("a")})
	require.NoError(t, err)
	require.False(t, l.Spoiled())
	_, err = l.Conn().Exec(t.Context(), `SELECT 1 AS "a;reset"`)
	require.NoError(t, err)
	require.True(t, l.Spoiled())
}
