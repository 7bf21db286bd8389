package fifo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Trouble with one group waits by itself, longer each time, and no other group waits with it.
func TestTroubleIsOfItsGroup(t *testing.T) { overLeases(t, testTroubleIsOfItsGroup) }

func testTroubleIsOfItsGroup(t *testing.T, by lease) {
	type row struct{ before, after string }
	trigger := func(old, does, when, table string) row {
		return row{
			fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN IF %s.group_id = 'bad' THEN %s; END IF; RETURN coalesce(NEW, OLD); END $$;
				CREATE TRIGGER refuse BEFORE %s ON pgfifo.%s FOR EACH ROW EXECUTE FUNCTION refuse()`,
				old, does, when, table),
			"DROP TRIGGER refuse ON pgfifo." + table,
		}
	}
	rows := map[string]row{
		"a dead letter of the same key": {
			`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
				SELECT queue, group_id, id, '', 1, enqueued_at FROM pgfifo.jobs WHERE group_id = 'bad'`,
			"DELETE FROM pgfifo.dead_letters WHERE attempts = 1",
		},
		"a trigger on what fails": trigger(
			"OLD", "RAISE EXCEPTION 'not this one'", "UPDATE OR DELETE", "jobs"),
		"a trigger that leaves what fails as it was": trigger("OLD", "RETURN NULL", "UPDATE OR DELETE", "jobs"),
		"a trigger that keeps the dead letter from being made": trigger(
			"NEW", "RETURN NULL", "INSERT", "dead_letters"),
	}
	pgtest.OverAll(t, rows, func(t *testing.T, x row) { testTroubleOf(t, by.on(newBed(t)), x.before, x.after) })
}

// So it is where several jobs of a group may run.
func TestTroubleOfAGroupWithALimit(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}))
	testTroubleOf(t, b,
		"ALTER TABLE pgfifo.jobs ADD CONSTRAINT refuse CHECK (group_id <> 'bad' OR failures IS NULL)",
		"ALTER TABLE pgfifo.jobs DROP CONSTRAINT refuse")
}

// A snooze that the server refuses to record is no attempt, where several jobs of a group may run.
func TestRefusedSnoozeOfAGroupWithALimit(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}))
	b.exec("ALTER TABLE pgfifo.jobs ADD CONSTRAINT refuse CHECK (run_at IS NULL)")
	var calls, attempt atomic.Int64
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		attempt.Store(int64(job.Attempt()))
		if calls.Add(1) == 1 {
			_ = execAnyway(ctx, job, "ROLLBACK")
			return fifo.Snooze(time.Second, errOnPurpose)
		}
		return nil
	}, oneLane)
	b.run(w)
	b.send("bad", nil)
	await(t, "trouble", func() bool { return w.Stats().Troubles >= 1 })
	b.exec("ALTER TABLE pgfifo.jobs DROP CONSTRAINT refuse")
	b.drained()
	require.EqualValues(t, 1, attempt.Load())
}

// Nor does a handler run for ever there that commits by hand, and whose failures the server refuses to record.
func TestRefusedFailureOfAGroupWithALimit(t *testing.T) {
	b := newBed(t)
	b.ledger.unordered, b.ledger.overlaps = true, true
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}))
	b.exec("ALTER TABLE pgfifo.jobs ADD CONSTRAINT refuse CHECK (failures IS NULL)")
	testRunsTwice(t, b, 4, "ALTER TABLE pgfifo.jobs DROP CONSTRAINT refuse", func(ctx context.Context, job *fifo.Job) {
		_ = execAnyway(ctx, job, "COMMIT")
	})
}

// Nor does a job run more often than it may if the server has no room to record a failure, nor to leave it to the next
// claim.
func TestRefusedFailureWithoutRoom(t *testing.T) {
	b := newBed(t)
	b.exec(refuseRecords)
	testRunsTwice(t, b, 5, takeRecords, func(context.Context, *fifo.Job) {})
}

const (
	// refuseRecords has the server refuse to record a failure, and, as one without room, to mark an attempt.
	refuseRecords = "ALTER TABLE pgfifo.jobs ADD CONSTRAINT refuse CHECK (failures IS NULL); " + pgtest.FullDisk
	// takeRecords has it take both again.
	takeRecords = pgtest.Room + "; ALTER TABLE pgfifo.jobs DROP CONSTRAINT refuse"
)

// A job behind the head whose failure cannot be recorded, nor marked, is nobody's attempt: the head has not failed.
func TestRefusedChargeBehindTheHead(t *testing.T) { overLeases(t, testRefusedChargeBehindTheHead) }

func testRefusedChargeBehindTheHead(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.overlaps, b.ledger.unordered = true, true // the head runs again
	ids := b.send("g", "head", "behind")
	b.exec(refuseRecords)
	var ended atomic.Bool
	w := b.each(fifo.Queue{BatchJobs: 2}, func(ctx context.Context, job *fifo.Job) error {
		if job.ID == ids[0] || !ended.CompareAndSwap(false, true) {
			return nil
		}
		return exec(ctx, job, "ROLLBACK")
	}, oneLane)
	r := b.run(w)
	await(t, "an attempt that is not recorded", func() bool {
		return len(b.log.lines("failed attempt not recorded")) > 0
	})
	b.exec(takeRecords)
	r.finish()
	require.Equal(t, []int{0, 0, 0, 0}, b.counted())
	require.Zero(t, w.Stats().Lost)
}

// testRunsTwice has a job fail that may be tried twice, until so many claims have met trouble: it has run twice at
// most. When the trouble is gone, it is a dead letter.
func testRunsTwice(t *testing.T, b *bed, troubles int64, mend string, before func(context.Context, *fifo.Job)) {
	var calls atomic.Int64
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		calls.Add(1)
		before(ctx, job)
		return errOnPurpose
	}, oneLane, func(w *fifo.Worker) { w.MaxAttempts = 2 })
	b.run(w)
	b.send("bad", nil)
	await(t, "trouble", func() bool { return w.Stats().Troubles >= troubles })
	require.LessOrEqual(t, calls.Load(), int64(2))
	b.exec(mend)
	await(t, "the dead letter", func() bool { return len(b.deadLetters()) == 1 })
}

func testTroubleOf(t *testing.T, b *bed, before, after string) {
	var calls atomic.Int64
	w := b.worker(func(_ context.Context, job *fifo.Job) error {
		if job.GroupID == "bad" {
			calls.Add(1)
			return errOnPurpose
		}
		return nil
	}, oneLane, func(w *fifo.Worker) { w.MaxAttempts = 2 })
	b.run(w)
	b.send("good", make([]any, tuning.Many+1)...) // the first attempts of a lane are marked in any case
	b.drained()
	bad := b.q.Group("bad")
	require.NoError(t, pausing(bad.Pause(t.Context(), "until all is as it should not be")))
	b.send("bad", nil)
	b.exec(before)
	b.resumes(bad)
	await(t, "trouble", func() bool { return w.Stats().Troubles >= 2 })
	for range 40 { // one after the other: each would wait for a lane that waits
		b.send("good", nil)
		await(t, "the good one", func() bool { return b.count("jobs WHERE group_id = 'good'") == 0 })
	}
	require.Less(t, w.Stats().Troubles, int64(20), "longer each time")
	b.exec(after)
	await(t, "the dead letter", func() bool { return len(b.deadLetters()) == 1 })
	require.Equal(t, 2, b.deadLetters()[0].Attempts)
	b.drained()
	require.EqualValues(t, 2, calls.Load(), "each is an attempt, whatever the server refuses")
}

// A row that the server refuses to make, or to take from a dead session, is trouble of its group: all others are found,
// also without a notice.
func TestRefusedRowIsTroubleOfItsGroup(t *testing.T) {
	overLeases(t, testRefusedRowIsTroubleOfItsGroup)
}

func testRefusedRowIsTroubleOfItsGroup(t *testing.T, by lease) {
	const refuse = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.group_id = 'bad' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON pgfifo.queue_groups FOR EACH ROW EXECUTE FUNCTION refuse()`
	const found = "INSERT INTO pgfifo.jobs (queue, group_id, payload) SELECT 'q', unnest($1::text[]), ''"
	pgtest.OverAll(t, map[string]func(b *bed){
		"a new group": func(b *bed) {
			b.exec(refuse)
			b.exec(found, []string{"a", "bad", "c"})
		},
		"a dead session's": func(b *bed) {
			b.exec(found, []string{"a", "bad", "c"})
			b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id, session, token, job, attempt)
				SELECT 'q', group_id, 1000 + id, 1, id, 1 FROM pgfifo.jobs`)
			b.exec(refuse)
		},
	}, func(t *testing.T, prepare func(b *bed)) {
		b := by.on(newBed(t))
		prepare(b)
		w := b.worker(nop)
		b.run(w)
		left := func() string {
			return query[string](b, "SELECT coalesce(string_agg(group_id, ' '), '') FROM pgfifo.jobs")
		}
		await(t, "the others", func() bool { return left() == "bad" })
		await(t, "trouble", func() bool { return w.Stats().Troubles >= 2 })
		b.exec(found, []string{"new"})
		await(t, "one more", func() bool { return left() == "bad" })
		require.NoError(t, w.Ready())
		require.Less(t, w.Stats().Troubles, int64(20), "longer each time")
		b.exec("DROP TRIGGER refuse ON pgfifo.queue_groups")
		// By now the group may rest for as long as a group can.
		require.True(t, pgtest.Wait(tuning.Long+patience, func() bool { return b.count("jobs") == 0 }))
	})
}

// A claim that a lock on a whole table stops, because the role has a lock_timeout, is no trouble of its group's: all
// groups go on when the lock is gone, and nobody has tried in a circle.
func TestLockedTableIsNoTrouble(t *testing.T) {
	b := newBed(t)
	w := b.worker(nop, oneLane, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["lock_timeout"] = "20"
		}))
	})
	b.run(w)
	b.send("g", nil)
	b.drained()
	tx := b.beginWith("LOCK TABLE pgfifo.attempt_marks")
	b.sendMany("q", 10, 1)
	await(t, "claims that are stopped", func() bool { return len(b.log.lines("(SQLSTATE 55P03)")) > 4 })
	require.NoError(t, tx.Rollback(t.Context()))
	b.drained()
	require.Zero(t, w.Stats().Troubles)
}

// A claim that the server refuses, when the group is locked already, is no attempt.
func TestRefusedClaimIsNoAttempt(t *testing.T) {
	b, h, w := newImpatient(t)
	ids := b.send("g", nil, nil)
	receive(t, h.started, "the first handler")
	b.refuseNext(h)
	receive(t, h.started, "the second handler")
	h.release <- struct{}{}
	b.drained()
	require.Equal(t, ids, b.ledger.order())
	require.Zero(t, w.Stats().Lost)
}

// A refused claim does not hide that the last worker of the group has died with the job.
func TestRefusedClaimHidesNoDeath(t *testing.T) {
	b, h, w := newImpatient(t)
	b.send("g", nil)
	receive(t, h.started, "the first handler")
	b.send("lost", nil)
	await(t, "the group's row", func() bool {
		return query[bool](b, "SELECT EXISTS (SELECT FROM pgfifo.queue_groups WHERE group_id = 'lost')")
	})
	dies := b.beginWith("SELECT FROM pgfifo.queue_groups WHERE group_id = 'lost' FOR NO KEY UPDATE")
	require.NoError(t, second(dies.Exec(t.Context(),
		"SELECT FROM pgfifo.jobs WHERE group_id = 'lost' FOR NO KEY UPDATE")))
	require.NoError(t, dies.Rollback(t.Context()))
	b.refuseNext(h)
	receive(t, h.started, "the second handler")
	h.release <- struct{}{}
	b.drained()
	require.Equal(t, []int{0, 1}, b.counted())
	require.EqualValues(t, 1, w.Stats().Lost)
}

// newImpatient returns a worker with one lane, whose handlers block, on a server that is patient for a second only.
func newImpatient(t *testing.T) (*bed, *blocking, *fifo.Worker) {
	t.Helper()
	b := newBed(t)
	b.exec("ALTER DATABASE " + query[string](b, "SELECT current_database()") + " SET statement_timeout = '1s'")
	h := newBlocking()
	w := b.worker(h.handle, oneLane)
	b.run(w)
	return b, h, w
}

// refuseNext lets the handler return. The claims that follow are refused when they have locked their group.
func (b *bed) refuseNext(h *blocking) {
	t := b.t
	t.Helper()
	lock := pgtest.Conn(t, b.url)
	// This lock waits for the first claim, which has read the table. The second claim waits for the lock.
	locked := beside(func() error {
		_, err := lock.Exec(t.Context(), "SET statement_timeout = 0; BEGIN; LOCK pgfifo.pauses")
		return err
	})
	await(t, "the lock", func() bool {
		return query[bool](b, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted
			AND relation = 'pgfifo.pauses'::regclass
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	})
	h.release <- struct{}{}
	require.NoError(t, receive(t, locked, "the lock"))
	seen, waiting := 0, false
	await(t, "two claims to be refused", func() bool { // the first one may be put back, of which the log tells nothing
		waited := waiting
		waiting = query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '-- Claims the head%')`)
		if waited && !waiting {
			seen++
		}
		return seen == 2 || len(b.log.lines("who=lane")) >= 2
	})
	require.NoError(t, second(lock.Exec(t.Context(), "ROLLBACK")))
}

// waiting is a Retry for tests that count how soon a job is tried again.
func waiting(d time.Duration) func(*fifo.Job, error) time.Duration {
	return func(*fifo.Job, error) time.Duration { return d }
}
