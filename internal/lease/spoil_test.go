package lease

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
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
	} {
		require.Equal(t, want, spoils(sql), "%q", sql)
	}
}

func TestSpoiledLane(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		run  func(tx pgx.Tx) error
		want bool
	}{
		"nothing": {func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "SELECT 1"); return err }, false},
		"query":   {func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "SET work_mem = '1MB'"); return err }, true},
		"behind another": {func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT 1; SET work_mem = '1MB'")
			return err
		}, true},
		"prepared": {func(tx pgx.Tx) error {
			if _, err := tx.Prepare(t.Context(), "x", "SET work_mem = '1MB'"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "x")
			return err
		}, true},
		"encoding, by a function": {func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT set_config('client_encoding', 'LATIN1', false)")
			return err
		}, true},
		"batch": {func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue("RESET ALL")
			return tx.SendBatch(t.Context(), b).Close()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.Enqueue(1, "a")
			l := s.lane()
			h := s.claim(l, "a")
			require.NoError(t, l.Lend(func() { require.NoError(t, x.run(s.pgxTx(h))) }))
			s.end(l, succeed(h)...)
			require.Equal(t, x.want, l.Spoiled())
		})
	}
}

// A session on which claims fail is closed, whatever a handler has made of it.
func TestUselessSessionIsClosed(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"DEALLOCATE ALL", "SET ROLE pg_monitor", "BEGIN READ ONLY; SELECT"} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.Enqueue(1, "a")
			l := s.lane()
			s.end(l)
			_, err := l.Conn().Exec(t.Context(), sql)
			require.NoError(t, err)
			_, _, err = l.Step(t.Context(), nil, &Request{Key: group("a")})
			require.Error(t, err)
			require.True(t, l.Closed())
		})
	}
}
