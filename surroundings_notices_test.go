//go:build unix

package pgfifo_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// requireNotices checks that a worker hears of jobs by notices: that one of them ran although no session of the worker had
// said anything since it was enqueued. Found by looking, none would.
func (s *site) requireNotices(producer, worker *fifo.Client) {
	s.Helper()
	const name = "hears"
	told := make(chan bool, 1)
	s.work(&fifo.Worker{Client: worker, Concurrency: 1, Name: name, PollInterval: time.Hour},
		func(ctx context.Context, job *fifo.Job) error {
			tx, err := job.PgxTx(ctx)
			if err != nil {
				return err
			}
			var silent bool
			err = tx.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database()
				AND application_name = $1 AND pid <> pg_backend_pid() AND query_start > $2`, name, job.EnqueuedAt).Scan(&silent)
			told <- silent
			return err
		})
	for range 10 {
		s.until("the worker to have looked for a while, and to rest", func() bool {
			return s.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND application_name = $1 HAVING max(query_start) < clock_timestamp() - interval '0.5 s' AND count(*) = 3
				UNION ALL SELECT 0 LIMIT 1`, name) == 3
		})
		_, err := producer.Enqueue(s.Context(), message("notice", task{}))
		require.NoError(s, err)
		if awaitValue(s, told, "the job") {
			return
		}
	}
	require.Fail(s, "all jobs were found by looking")
}

// Notifications reach a worker behind pgbouncer in session mode, and go out from producers behind transaction mode.
func TestNoticesThroughPoolers(t *testing.T) {
	t.Parallel()
	for _, behind := range []string{"worker, session", "producer, transaction"} {
		t.Run(behind, func(t *testing.T) {
			t.Parallel()
			who, mode, _ := strings.Cut(behind, ", ")
			b := newBouncer(t, mode, nil)
			s := newSite(t)
			other := fifo.Open(connectIn(t, b.through(s.url), pgx.QueryExecModeExec), nil)
			t.Cleanup(func() { require.NoError(t, other.Close()) })
			if who == "worker" {
				s.requireNotices(s.client, other)
			} else {
				s.requireNotices(other, s.client)
			}
		})
	}
}
