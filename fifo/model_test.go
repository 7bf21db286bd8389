package fifo_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
)

// The models say what the migrations made: columns, keys, and what may be null.
func TestModels(t *testing.T) {
	b := newBed(t)
	for _, x := range []struct {
		model any
		table string
	}{
		{fifo.Job{}, "jobs"},
		{groups.QueueGroup{}, "queue_groups"},
		{fifo.Pause{}, "pauses"},
	} {
		table := pgdialect.New().Tables().Get(reflect.TypeOf(x.model))
		require.Equal(t, "pgfifo."+x.table, table.Name)
		var columns, keys []string
		required := map[string]bool{}
		for _, f := range table.Fields {
			columns = append(columns, f.Name)
			required[f.Name] = f.NotNull || f.IsPK
			if f.IsPK {
				keys = append(keys, f.Name)
			}
		}
		const of = " FROM information_schema.columns WHERE table_schema = 'pgfifo' AND table_name = $1"
		found := query[[]string](b, "SELECT array_agg(column_name::text)"+of, x.table)
		require.ElementsMatch(t, found, columns, x.table)
		require.Equal(t, query[[]string](b, `SELECT array_agg(attname::text ORDER BY attnum) FROM pg_index, pg_attribute
			WHERE indisprimary AND indrelid = ('pgfifo.' || $1)::regclass
			AND attrelid = indexrelid`, x.table), keys, x.table)
		for _, c := range columns {
			want := query[bool](b, "SELECT is_nullable = 'NO'"+of+" AND column_name = $2", x.table, c)
			require.Equal(t, want, required[c], "%s.%s", x.table, c)
		}
	}
}

// A dead letter is a job that has died, and bun reads it as one.
func TestDeadLetterIsAJob(t *testing.T) {
	b := newBed(t)
	columns := func(table string) []string {
		return query[[]string](b, `SELECT array_agg(column_name || ' ' || data_type || ' ' || is_nullable ORDER BY 1)
			FROM information_schema.columns WHERE table_schema = 'pgfifo' AND table_name = $1
			AND column_name NOT IN ('run_at', 'died_at')`, table)
	}
	require.Equal(t, columns("jobs"), columns("dead_letters"))
	b.sendAll(fifo.Message{
		Queue: "q", GroupID: "g", Payload: "x", Headers: fifo.Headers{"a": "b"}, MaxAttempts: 1, Priority: 3,
	})
	b.work(b.worker(failing(1, errOnPurpose)))
	listed := b.deadLetters()[0]
	require.WithinDuration(t, time.Now(), listed.DiedAt, time.Minute)
	require.Zero(t, listed.RunAt)
	var read fifo.Job
	require.NoError(t, b.client.DB().NewSelect().Model(&read).ModelTableExpr("pgfifo.dead_letters AS job").
		ColumnExpr("*").Scan(t.Context()))
	require.True(t, listed.DiedAt.Equal(read.DiedAt))
	require.True(t, listed.EnqueuedAt.Equal(read.EnqueuedAt))
	read.DiedAt, read.EnqueuedAt = listed.DiedAt, listed.EnqueuedAt
	require.Equal(t, listed, read)
}

// A pause can be written and read with bun as it is.
func TestPauseRoundTrip(t *testing.T) {
	b := newBed(t)
	p, read := fifo.Pause{Queue: "q", GroupID: "a", Reason: "é '\" ?"}, fifo.Pause{}
	_, err := b.client.DB().NewInsert().Model(&p).Returning("*").Exec(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), p.PausedAt, time.Minute)
	require.NoError(t, b.client.DB().NewSelect().Model(&read).Scan(t.Context()))
	require.Equal(t, p, read)
}

// No parameter of a statement has a domain of bytea for its type: lib/pq would send it as a text with escapes.
func TestBytesAreBytea(t *testing.T) {
	b := newBed(t)
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	files, err := filepath.Glob("sql/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if file == "sql/enqueue_new.sql" || file == "sql/enqueued.sql" { // the ends of one
			continue
		}
		sql, err := os.ReadFile(file)
		require.NoError(t, err)
		prepared, err := conn.Conn().Prepare(t.Context(), "", string(sql))
		require.NoError(t, err, file)
		require.Empty(t, query[[]string](b, `SELECT coalesce(array_agg(t.typname::text), '{}') FROM pg_type t
			WHERE t.typbasetype = 'bytea'::regtype AND t.oid = ANY ($1::oid[])`, prepared.ParamOIDs), file)
	}
}
