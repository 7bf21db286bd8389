package fifo_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

func nop(context.Context, *fifo.Job) error { return nil }

func TestEnqueue(t *testing.T) {
	b := newBed(t)
	ids, err := b.client.Enqueue(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)

	one := b.send("a", "first")
	require.Len(t, one, 1)
	msgs := make([]fifo.Message, 1000)
	for i := range msgs {
		msgs[i] = fifo.Message{Queue: "q", GroupID: string(rune('a' + i*7%26)), Payload: i, MaxAttempts: i % 3}
	}
	many := b.sendAll(msgs...)
	require.Len(t, many, len(msgs))
	require.True(t, slices.IsSorted(many))
	require.Less(t, one[0], many[0])
	for i, id := range many { // each id is that of the message in its place
		job := query[string](b, `SELECT concat(group_id, ' ', convert_from(payload, 'UTF8'), ' ', max_attempts)
			FROM pgfifo.jobs WHERE id = $1`, id)
		want := msgs[i].GroupID + " " + strconv.Itoa(i) + " "
		if msgs[i].MaxAttempts > 0 {
			want += strconv.Itoa(msgs[i].MaxAttempts)
		}
		require.Equal(t, want, job)
	}
}

// One message that the database refuses keeps all the others out too.
func TestEnqueueAllOrNone(t *testing.T) {
	b := newBed(t)
	b.exec("ALTER TABLE pgfifo.jobs ADD CHECK (group_id <> 'taboo')")
	_, err := b.client.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: "a"},
		fifo.Message{Queue: "q", GroupID: "taboo"}, fifo.Message{Queue: "q", GroupID: "b"})
	require.ErrorContains(t, err, "jobs_group_id_check")
	require.Zero(t, b.count("jobs"))
}

func TestEnqueueHook(t *testing.T) {
	type key struct{}
	var seen []int
	var ids [][]fifo.Receipt
	var errs []error
	b := newBed(t, hooked(fifo.Hooks{
		Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			seen = append(seen, len(msgs))
			ctx, cancel := context.WithCancel(context.WithValue(ctx, key{}, true))
			if len(msgs) == 3 {
				cancel() // the hook's context is the one that counts
			}
			return ctx, func(got []fifo.Receipt, err error) {
				cancel()
				ids, errs = append(ids, got), append(errs, err)
			}
		},
	}))
	m := fifo.Message{Queue: "q", GroupID: "g"}
	got := b.receipts(m, m)
	invalid := second(b.client.Enqueue(t.Context(), fifo.Message{}))
	cancelled := second(b.client.Enqueue(t.Context(), m, m, m))
	require.ErrorIs(t, cancelled, context.Canceled)
	require.NoError(t, second(b.client.Enqueue(t.Context())))
	require.Equal(t, []int{2, 1, 3}, seen, "none for nothing")
	require.Equal(t, [][]fifo.Receipt{got, nil, nil}, ids)
	require.Equal(t, []error{nil, invalid, cancelled}, errs)

	b.client = b.open(b.pool, hooked(fifo.Hooks{
		Enqueue: func(context.Context, []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			return nil, nil
		},
	}))
	b.receipts(m)
}

// A database that is not migrated, or by somebody else's release, is reported by the first call, whichever it is, and a
// transaction survives that. The answer is remembered only when it is good: a client may be opened before.
func TestEnqueueVersion(t *testing.T) {
	type row struct {
		want error
		url  func(testing.TB) string
		make string
	}
	const newer = `CREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer LANGUAGE sql AS 'SELECT 1000';
		CREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql AS 'SELECT 999'`
	pgtest.OverAll(t, map[string]row{
		"none":  {migrations.ErrNotMigrated, pgtest.EmptyURL, "SELECT"},
		"newer": {migrations.ErrTooNew, pgtest.URL, newer},
	}, func(t *testing.T, x row) {
		t.Parallel()
		b, m := bedOn(t, x.url(t)), fifo.Message{Queue: "q", GroupID: "g"}
		b.exec(x.make)
		require.ErrorIs(t, second(b.client.Enqueue(t.Context(), m)), x.want)
		require.ErrorIs(t, second(b.client.Jobs(t.Context(), fifo.Page{})), x.want)
		w := b.worker(nop)
		require.ErrorIs(t, w.Run(t.Context()), x.want)
		require.ErrorIs(t, second(w.RunOne(t.Context())), x.want)

		tx, err := b.client.DB().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.ErrorIs(t, second(b.client.EnqueueTx(t.Context(), tx, m)), x.want)
		require.NoError(t, second(tx.ExecContext(t.Context(), "CREATE TABLE sql_lives ()")))
		require.NoError(t, tx.Commit())

		ptx := b.begin()
		require.ErrorIs(t, second(b.client.EnqueuePgxTx(t.Context(), ptx, m)), x.want)
		require.NoError(t, second(ptx.Exec(t.Context(), "CREATE TABLE pgx_lives ()")))
		require.NoError(t, ptx.Commit(t.Context()))
		if errors.Is(x.want, migrations.ErrNotMigrated) {
			require.NoError(t, migrations.Up(t.Context(), b.pool, nil))
			b.sendAll(m)
			b.work(w)
		}
	})
}

// Each schema is a world of its own, notifications included, and may be called anything.
func TestSchemas(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool := pgtest.Connect(t, url)
	names := []string{"", `O"dd 'Näme'; pgfifo.$1?`, "public"}
	beds := make([]*bed, len(names))
	for i, name := range names {
		require.NoError(t, migrations.Up(t.Context(), pool, &migrations.Config{Schema: name}))
		beds[i] = bedOn(t, url, func(c *fifo.Config) { c.Schema = name })
		_, err := beds[i].client.Enqueue(t.Context(),
			fifo.Message{Queue: "q", GroupID: "g", Payload: name},
			fifo.Message{Queue: "q", GroupID: "dead", Payload: name})
		require.NoError(t, err)
	}
	for i, b := range beds {
		r := b.run(b.worker(func(_ context.Context, job *fifo.Job) error {
			if job.GroupID == "dead" {
				return fifo.DeadLetter(errOnPurpose)
			}
			return nil
		}, rarePolls))
		await(t, "two outcomes", func() bool { return len(b.ledger.outcomes()) == 2 })
		b.receipts(fifo.Message{Queue: "q", GroupID: "told", Payload: names[i]})
		await(t, "the announced message", func() bool { return len(b.ledger.outcomes()) == 3 })
		require.NoError(t, r.stop())
		require.Equal(t, []string{names[i], names[i], names[i]}, b.ledger.payloads())
		require.Empty(t, b.jobs())
		require.Len(t, b.deadLetters(), 1)
		for _, other := range beds[i+1:] {
			require.Len(t, other.jobs(), 2)
			require.Empty(t, other.deadLetters())
		}
	}
}

func TestInvalidSchema(t *testing.T) {
	t.Parallel()
	c := nowhere(t, func(cfg *fifo.Config) { cfg.Schema = "pg_mine" })
	want := second(c.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: "g"}))
	require.ErrorContains(t, want, "pg_mine")
	require.Equal(t, want, second(c.Jobs(t.Context(), fifo.Page{})))
	w := &fifo.Worker{Client: c}
	w.Handle("q", nop)
	require.Equal(t, want, w.Run(t.Context()))
}
