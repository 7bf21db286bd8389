package pgfifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A handler that says SELECT * has a prepared statement on its lane whose result changes with the table: PostgreSQL
// refuses it once per lane (0A000), which is a failed attempt, and pgx prepares it anew for the next. So with many
// lanes a job may need many attempts after a migration; a handler that names its columns needs none.
func TestMigrationUnderAPreparedStatement(t *testing.T) {
	type query struct {
		columns  string
		attempts []int
	}
	overAll(t, map[string]query{
		"all columns": {"*", []int{1, 1, 2, 1}}, "by name": {"id, n", []int{1, 1, 1, 1}},
	}, func(t *testing.T, q query) {
		s := newSite(t)
		_, err := s.pool.Exec(t.Context(), "CREATE TABLE accounts (id text, n bigint)")
		require.NoError(t, err)
		w := &fifo.Worker{Client: s.client, Concurrency: 1, Retry: func(*fifo.Job, error) time.Duration {
			return 0
		}}
		w.Handle(queue, func(ctx context.Context, job *fifo.Job) error {
			tx, err := writeEffect(ctx, job)
			if err != nil {
				return err
			}
			rows, err := tx.Query(ctx, "SELECT "+q.columns+" FROM accounts WHERE id = $1", job.GroupID)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowToMap)
			return err
		})
		background(s.T, w.Run)
		s.fill(1, 2)
		s.drained()
		_, err = s.pool.Exec(t.Context(), "ALTER TABLE accounts ADD COLUMN note text")
		require.NoError(t, err)
		s.fill(1, 2)
		s.drained()
		rows, err := s.pool.Query(t.Context(), "SELECT attempt FROM effects ORDER BY n")
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[int])
		require.NoError(t, err)
		require.Equal(t, q.attempts, got)
	})
}
