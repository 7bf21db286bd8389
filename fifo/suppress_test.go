package fifo_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// suppress has triggers of the user's keep jobs and dead letters from being made, without an error.
func (b *bed) suppress(when string) (undo func()) {
	b.t.Helper()
	b.exec("CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
	for _, table := range []string{"jobs", "dead_letters"} {
		b.exec("CREATE TRIGGER suppress BEFORE INSERT ON pgfifo." + table + " FOR EACH ROW WHEN (" + when +
			") EXECUTE FUNCTION suppress()")
	}
	return func() {
		b.t.Helper()
		b.exec("DROP FUNCTION suppress() CASCADE")
	}
}

// What makes rows makes all of them, or changes nothing and returns an error: also in a transaction of the caller's,
// and also if none is made.
func TestTriggerThatKeepsRows(t *testing.T) {
	type act func(b *bed, in fifo.Scope, tx pgx.Tx) error
	enqueue := func(c func(b *bed) *fifo.Client, adjust func(*fifo.Message)) act {
		return func(b *bed, _ fifo.Scope, tx pgx.Tx) error {
			msgs := make([]fifo.Message, 3)
			for i, payload := range []string{"0", "1", "2"} {
				msgs[i] = fifo.Message{Queue: "q", GroupID: "new", Payload: payload}
				adjust(&msgs[i])
			}
			if tx == nil {
				return second(c(b).Enqueue(b.t.Context(), msgs...))
			}
			return second(c(b).EnqueuePgxTx(b.t.Context(), tx, msgs...))
		}
	}
	own := func(b *bed) *fifo.Client { return b.client }
	redrive := func(tail bool) act {
		return func(b *bed, in fifo.Scope, _ pgx.Tx) error {
			_, _, err := in.Group("dead").Redrive(b.t.Context(),
				fifo.Redrive{Letters: fifo.Letters{All: true}, ToTail: tail})
			return err
		}
	}
	function := func(args string) act {
		return func(b *bed, _ fifo.Scope, tx pgx.Tx) error {
			sql := "SELECT pgfifo.enqueue('q', 'new', n::text" + args + ") FROM generate_series(0, 2) n"
			if tx == nil {
				return second(b.pool.Exec(b.t.Context(), sql))
			}
			return second(tx.Exec(b.t.Context(), sql))
		}
	}
	pgtest.OverAll(t, map[string]act{
		"enqueue": enqueue(own, func(*fifo.Message) {}),
		"enqueue in the order of commits": enqueue(func(b *bed) *fifo.Client {
			return b.open(b.pool, commitOrder)
		}, func(*fifo.Message) {}),
		"enqueue what may be a duplicate": enqueue(own, func(m *fifo.Message) { m.DedupID = m.Payload.(string) }),
		"function":                        function(""),
		"function, deduplicated":          function(", dedup_id => n::text"),
		"move": func(b *bed, in fifo.Scope, _ pgx.Tx) error {
			return second(in.Group("g").Move(b.t.Context(), b.client.Queue("other")))
		},
		"redrive":             redrive(false),
		"redrive to the tail": redrive(true),
		"bury": func(b *bed, in fifo.Scope, _ pgx.Tx) error {
			return in.Bury(b.t.Context(), query[int64](b, "SELECT id FROM pgfifo.jobs WHERE payload = '1'"), "")
		},
	}, func(t *testing.T, do act) {
		b := newBed(t)
		for _, id := range b.send("dead", "0", "1", "2") {
			require.NoError(t, b.q.Bury(t.Context(), id, ""))
		}
		b.send("g", "0", "1", "2")
		const stored = `SELECT string_agg(j::text, ' ' ORDER BY id) FROM (
			SELECT queue::text, group_id::text, id FROM pgfifo.jobs
			UNION ALL SELECT 'dead', group_id, id FROM pgfifo.dead_letters
			UNION ALL SELECT 'remembered', '', job FROM pgfifo.dedup_ids) j`
		before := query[string](b, stored)
		for _, when := range []string{"NEW.payload = '1'", "true"} {
			undo := b.suppress(when)
			require.Error(t, do(b, b.q, nil), when)
			require.Equal(t, before, query[string](b, stored), when)
			tx := b.begin()
			require.Error(t, do(b, b.q.InPgx(tx), tx), when)
			_ = tx.Commit(t.Context()) // who takes no notice of it
			require.Equal(t, before, query[string](b, stored), when)
			undo()
		}
		require.NoError(t, do(b, b.q, nil))
		b.exec("TRUNCATE pgfifo.jobs, pgfifo.dead_letters")
		b.ledger.sent = nil
	})
}

// A job that moves to another queue in place of the dead letters stays if its row there is not made.
func TestTriggerThatKeepsAForwardedJob(t *testing.T) {
	overLeases(t, testTriggerThatKeepsAForwardedJob)
}

func testTriggerThatKeepsAForwardedJob(t *testing.T, by lease) {
	b := by.on(newBed(t))
	id := b.send("g", nil)[0]
	undo := b.suppress("NEW.queue = 'other'")
	w := b.bare(nil)
	w.HandleQueue("q", fifo.Queue{
		DeadLetterQueue: "other",
		Handler:         func(context.Context, *fifo.Job) error { return fifo.DeadLetter(errOnPurpose) },
	})
	b.run(w)
	await(t, "trouble", func() bool { return w.Stats().Troubles >= 2 })
	require.Equal(t, id, only(t, b.jobs()).ID)
	require.Less(t, w.Stats().Troubles, int64(20), "longer each time")
	undo()
	await(t, "the other queue", func() bool {
		jobs := b.jobs()
		return len(jobs) == 1 && jobs[0].Queue == "other"
	})
}
