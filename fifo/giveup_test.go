package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// giving returns a quick worker of queue q that gives jobs up in that way.
func (b *bed) giving(up fifo.GiveUp, q fifo.Queue, adjust ...func(*fifo.Worker)) *fifo.Worker {
	b.t.Helper()
	w := b.bare(adjust)
	q.OnGiveUp = up
	if q.Handler != nil {
		q.Handler = b.ledger.record(q.Handler)
	}
	w.HandleQueue("q", q)
	return w
}

// failsOutside is a handler that has ended its job's transaction when it fails.
func failsOutside(ctx context.Context, job *fifo.Job) error {
	if tx, err := job.PgxTx(ctx); err == nil {
		_, _ = tx.Conn().Exec(ctx, "ROLLBACK")
	}
	return errOnPurpose
}

// A job that has used up its attempts stops its group, and no other, until an operator resumes it: it has all its
// attempts then, and its history.
func TestBlockedGroup(t *testing.T) { overLeases(t, testBlockedGroup) }

func testBlockedGroup(t *testing.T, by lease) {
	b := by.on(newBed(t))
	ids := b.send("g", "head", "next")
	b.send("other", "fine")
	broken := true
	w := b.giving(fifo.BlockGroup, fifo.Queue{Handler: func(_ context.Context, job *fifo.Job) error {
		if string(job.Payload) == "head" && broken {
			return errOnPurpose
		}
		return nil
	}})
	r := b.run(w)
	await(t, "the block", func() bool { return w.Stats().Blocked == 1 && w.Stats().Succeeded == 1 })
	require.NoError(t, r.stop())
	require.Equal(t, "blocked", fifo.Blocked.String())
	jobs := b.jobs()
	require.Len(t, jobs, 2)
	require.Equal(t, 3, jobs[0].Attempts)
	require.Len(t, jobs[0].Failures, 3)
	require.Empty(t, b.deadLetters())
	pause := only(t, b.pauses())
	require.Equal(t, "g", pause.GroupID)
	require.Equal(t, ids[0], pause.Job)
	require.Contains(t, pause.Reason, errOnPurpose.Error())

	broken = false
	require.True(t, b.resumes(b.q.Group("g")))
	jobs = b.jobs()
	require.Zero(t, jobs[0].Attempts)
	require.Len(t, jobs[0].Failures, 3)
	b.work(w)
	require.Equal(t, ids, b.ledger.order()[len(b.ledger.order())-2:])
}

// Where nothing is to be skipped, a payload that does not decode is not either: it blocks at once, also in a batch,
// unless a handler says that it is a dead letter. Mended, it goes on.
func TestUndecodableBlocks(t *testing.T) { overLeases(t, testUndecodableBlocks) }

func testUndecodableBlocks(t *testing.T, by lease) {
	b := newBed(t)
	w := b.bare(nil)
	var names []string
	for name, q := range oneAndBatches(3) {
		q.OnGiveUp, q.DeadLetterQueue = fifo.BlockGroup, "morgue"
		q.Handler = fifo.JSON(func(context.Context, *fifo.Job, parcel) error { return nil })
		w.HandleQueue(name, q)
		names = append(names, name)
	}
	w.HandleQueue("told", fifo.Queue{OnGiveUp: fifo.BlockGroup, Handler: func(_ context.Context, job *fifo.Job) error {
		return fifo.DeadLetter(job.Decode(new(parcel)))
	}})
	by.on(b, append(names, "told")...)
	for _, name := range append(names, "told") {
		b.sendAll(fifo.Message{Queue: name, GroupID: "g", Payload: "secret"},
			fifo.Message{Queue: name, GroupID: "g", Payload: parcel{"Ada"}})
	}
	r := b.run(w)
	await(t, "the blocks", func() bool { return w.Stats().Blocked == 3 && w.Stats().Buried == 2 })
	for _, name := range names {
		q := b.client.Queue(name)
		jobs := b.jobsOf(q)
		require.Len(t, jobs, 2, "nothing is skipped")
		require.Equal(t, 1, jobs[0].Attempts)
		require.Len(t, jobs[0].Failures, 1)
		why, err := q.Group("g").Why(t.Context())
		require.NoError(t, err)
		require.Equal(t, jobs[0].ID, why.PauseJob)
		require.Contains(t, why.PauseReason, "decode payload of job")
		require.NotContains(t, why.PauseReason, "secret")
		b.unlooked(func() error {
			return q.Edit(t.Context(), jobs[0].ID, func(job *fifo.Job) error {
				job.Payload = []byte(`{}`)
				return nil
			})
		})
		b.resumes(q.Group("g"))
	}
	r.finish()
	require.EqualValues(t, 6, w.Stats().Succeeded)
}

// An operator may move the job to the dead letters instead: that one, and none behind it.
func TestBuryWhatBlocks(t *testing.T) {
	b := newBed(t)
	ids := b.send("g", "head", "next")
	w := b.giving(fifo.BlockGroup, fifo.Queue{Handler: failing(9, errOnPurpose)})
	r := b.run(w)
	for i, id := range ids {
		await(t, "the block", func() bool { return w.Stats().Blocked == int64(i+1) })
		b.unlooked(func() error { return b.q.Bury(t.Context(), id, "skipped") })
		letter := b.deadLetters()[i]
		require.Equal(t, id, letter.ID)
		require.Equal(t, 3, letter.Attempts)
		require.Len(t, letter.Failures, 4)
		require.ErrorIs(t, b.q.Bury(t.Context(), id, "skipped"), fifo.ErrJobNotFound, "twice")
	}
	require.NoError(t, r.stop())
	require.Empty(t, b.pauses())
}

// A group that an operator has paused while its head made its last attempt keeps the reason, and is blocked.
func TestBlockOfAPausedGroup(t *testing.T) {
	b := newBed(t)
	b.sendAll(fifo.Message{Queue: "q", GroupID: "g", MaxAttempts: 1})
	g := b.q.Group("g")
	failed := false
	w := b.giving(fifo.BlockGroup, fifo.Queue{Handler: func(ctx context.Context, _ *fifo.Job) error {
		if failed {
			return nil
		}
		failed = true
		require.NoError(t, pausing(g.Pause(ctx, "by hand")))
		return errOnPurpose
	}}, oneLane)
	b.run(w)
	await(t, "the block", func() bool { return w.Stats().Blocked == 1 })
	pauses := b.pauses()
	require.Equal(t, "by hand", pauses[0].Reason)
	require.NotZero(t, pauses[0].Job)
	b.resumes(g)
	b.drained()
}

// The reason of a block is no longer than one of an operator's, whatever the error is.
func TestReasonOfABlock(t *testing.T) {
	b := newBed(t)
	texts := map[string]string{"zeros": "\x00", "no UTF-8": "\xff€", "letters": "é"}
	b.run(b.giving(fifo.BlockGroup, fifo.Queue{MaxAttempts: 1, Handler: func(_ context.Context, job *fifo.Job) error {
		return errors.New(strings.Repeat(texts[job.GroupID], 5000))
	}}))
	for name := range texts {
		b.send(name, "head")
		await(t, "the block", func() bool { return len(b.pauses()) > 0 })
		p := only(t, b.pauses())
		require.LessOrEqual(t, len(p.Reason), fifo.MaxReasonBytes, name)
		require.Greater(t, len(p.Reason), fifo.MaxReasonBytes-len("…")-utf8.UTFMax, name)
		require.NoError(t, b.q.Group(name).Bury(t.Context(), p.Job, ""), name)
		require.NoError(t, pausing(b.q.Group(name).Pause(t.Context(), p.Reason)), name)
		b.resumes(b.q.Group(name))
	}
	b.drained()
}

func TestBlockGoesWithItsJob(t *testing.T) {
	verbs := map[string]func(ctx context.Context, g fifo.Scope, id int64) error{
		"bury":   func(ctx context.Context, g fifo.Scope, id int64) error { return g.Bury(ctx, id, "") },
		"delete": func(ctx context.Context, g fifo.Scope, id int64) error { return g.Delete(ctx, id) },
		"purge":  func(ctx context.Context, g fifo.Scope, _ int64) error { return second(g.Purge(ctx)) },
	}
	b := newBed(t)
	b.ledger.unordered = true
	b.exec("SELECT setval('pgfifo.jobs_id_seq', 100)")
	b.run(b.giving(fifo.BlockGroup, fifo.Queue{Handler: failing(1, errOnPurpose)}))
	for verb, do := range verbs {
		for _, byHand := range []bool{false, true} {
			g := b.q.Group(verb)
			id := query[int64](b, `INSERT INTO pgfifo.jobs (queue, group_id, payload, max_attempts)
				VALUES ('q', $1, '', 1) RETURNING id`, verb)
			await(t, "the block", func() bool { return b.why(verb).PauseJob == id })
			// A lower id comes late: it is not what blocks the group.
			b.exec("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', $1, $2, '')", verb, id-100)
			why := b.why(verb)
			require.Contains(t, why.Reason(), fmt.Sprintf("waits: job %d blocks the group", id))
			if byHand {
				require.NoError(t, pausing(g.Pause(t.Context(), "by hand")))
			}
			require.NoError(t, do(t.Context(), g, id), verb)
			pauses := b.pauses()
			if byHand {
				require.Zero(t, only(t, pauses).Job, verb)
				b.resumes(g)
			} else {
				require.Empty(t, pauses, verb)
			}
			require.Equal(t, verb == "bury", slices.Contains(letterIDs(b.deadLetters()), id))
			b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.pauses")
		}
	}
}

// A block that was made while its job was taken away goes as well, with what takes jobs away next.
func TestBlockWithoutItsJob(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.pauses (queue, group_id, reason, job, by_hand)
		VALUES ('q', 'g', '', 7, false), ('q', 'h', 'by hand', 8, true), ('other', 'g', '', 9, false)`)
	require.NoError(t, second(b.q.Group("none").Move(t.Context(), b.q.Group("g"))))
	require.Equal(t, 3, b.count("pauses"), "not of its scope")
	require.NoError(t, second(b.q.Purge(t.Context())))
	pauses := b.pauses()
	require.Len(t, pauses, 2)
	require.Equal(t, int64(9), pauses[0].Job)
	require.Equal(t, "by hand", pauses[1].Reason)
	require.Zero(t, pauses[1].Job)
}

// An operator pauses a blocked group while another one takes its job away: the pause stays, without the job.
func TestPauseBesideABlockThatGoes(t *testing.T) {
	b := newBed(t)
	id := b.send("g", "head")[0]
	b.exec("INSERT INTO pgfifo.pauses (queue, group_id, reason, job, by_hand) VALUES ('q', 'g', '', $1, false)", id)
	g := b.q.Group("g")
	tx := b.begin()
	require.NoError(t, pausing(g.InPgx(tx).Pause(t.Context(), "under audit")))
	done := beside(func() error { return g.Bury(context.Background(), id, "looked at") })
	await(t, "the verb to wait", func() bool { return b.blocked() == 1 })
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, receive(t, done, "the verb"))
	pause := only(t, b.pauses())
	require.Equal(t, "under audit", pause.Reason)
	require.True(t, pause.ByHand)
	require.Zero(t, pause.Job)
}

// A job that is discarded leaves nothing behind, and its group goes on.
func TestDiscard(t *testing.T) { overLeases(t, testDiscard) }

func testDiscard(t *testing.T, by lease) {
	b := by.on(newBed(t))
	ids := b.send("g", "head", "next")
	w := b.giving(fifo.Discard, fifo.Queue{Handler: failingOn("head", errOnPurpose)}, oneLane)
	b.work(w)
	require.Equal(t, []int64{ids[0], ids[0], ids[0], ids[1]}, b.ledger.order())
	require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Retried, fifo.Discarded, fifo.Succeeded}, b.ledger.outcomes())
	require.Equal(t, "discarded", fifo.Discarded.String())
	require.EqualValues(t, 1, w.Stats().Discarded)
	require.Empty(t, b.deadLetters())
}

// Dead letters that come back to their queue by way of others would go round for ever.
func TestInvalidGiveUp(t *testing.T) {
	t.Parallel()
	to := func(queue string) fifo.Queue {
		return fifo.Queue{Handler: nop, DeadLetterQueue: queue}
	}
	for _, bad := range []fifo.Queue{
		{Handler: nop, OnGiveUp: -1}, {Handler: nop, OnGiveUp: fifo.Discard + 1}, to("q"), to("x\x00"), to("\n"),
	} {
		require.Panics(t, func() { new(fifo.Worker).HandleQueue("q", bad) }, "%d %q", bad.OnGiveUp, bad.DeadLetterQueue)
	}
	w := new(fifo.Worker)
	w.HandleQueue("a", to("b"))
	w.HandleQueue("b", to("c"))
	w.HandleQueue("d", to("c"))
	require.Panics(t, func() { w.HandleQueue("c", to("a")) })
	w.HandleQueue("c", to("elsewhere"))
}

// A group that a job blocks while it is being resumed is resumed with the block: the job has all its attempts again.
func TestResumeBesideABlock(t *testing.T) {
	b := newBed(t)
	ids, g := b.send("g", nil), b.q.Group("g")
	require.NoError(t, pausing(g.Pause(t.Context(), "by hand")))
	tx := b.beginWith("UPDATE pgfifo.jobs SET attempts = 3 WHERE id = $1", ids[0])
	_, err := tx.Exec(t.Context(), "UPDATE pgfifo.pauses SET job = $1 WHERE group_id = 'g'", ids[0])
	require.NoError(t, err)
	resumed := beside(func() error { return second(g.Resume(t.Context())) })
	await(t, "Resume to wait", func() bool {
		return query[bool](b, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid')")
	})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, receive(t, resumed, "the end of Resume"))
	require.Zero(t, b.count("pauses"))
	require.Zero(t, b.jobs()[0].Attempts)
	require.NoError(t, pausing(b.q.Pause(t.Context(), "night")))
	b.exec("INSERT INTO pgfifo.pauses (queue, group_id, job, by_hand) VALUES ('q', 'g', $1, false)", ids[0])
	require.Equal(t, ids[0], b.why("g").PauseJob, "also while the queue is paused")
}

// Somebody keeps the pauses of two groups in an open transaction while jobs of theirs use up their attempts. The
// worker's lanes are not kept from a third group, and the two are blocked when he is done.
func TestBlockBesideAnOpenPause(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"committed": true, "rolled back": false}, func(t *testing.T, commit bool) {
		b := newBed(t)
		heads := map[string]int64{"a": b.send("a", "bad", "behind")[0], "b": b.send("b", "bad", "behind")[0]}
		tx := b.begin()
		for group := range heads {
			require.NoError(t, pausing(b.q.Group(group).InPgx(tx).Pause(t.Context(), "by hand")))
		}
		w := b.giving(fifo.BlockGroup, fifo.Queue{MaxAttempts: 1, Handler: failingOn("bad", errOnPurpose)},
			func(w *fifo.Worker) { w.Concurrency = 2 })
		b.run(w)
		await(t, "both to fail", func() bool { return b.ledger.started() == 2 })
		b.send("c", "good")
		soon := time.Now().Add(patience / 3)
		await(t, "another group's job", func() bool { return w.Stats().Succeeded == 1 })
		require.True(t, time.Now().Before(soon), "it has waited for a timeout of the server's")
		if commit {
			require.NoError(t, tx.Commit(t.Context())) // paused by hand, and perhaps blocked
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
			for group, id := range heads {
				await(t, "the block of "+group, func() bool { return b.why(group).PauseJob == id })
			}
		}
		await(t, "both attempts to be counted", func() bool {
			return !slices.ContainsFunc(b.jobs(), func(job fifo.Job) bool {
				return (string(job.Payload) == "bad") != (job.Attempts == 1 && len(job.Failures) == 1)
			})
		})
		require.Equal(t, 3, b.ledger.started(), "no job was tried again")
		b.exec("DELETE FROM pgfifo.jobs")
		b.ledger.sent = nil
	})
}
