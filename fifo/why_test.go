package fifo_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// One call tells why a job does not run, for each reason that there is.
func TestWhy(t *testing.T) {
	b := newBed(t)
	b.send("held", nil, nil)
	h := newBlocking()
	w := b.worker(h.handle, oneLane, func(w *fifo.Worker) { w.Name = "worker of TestWhy" })
	r := b.run(w)
	held := receive(t, h.started, "the head")
	b.plant("q", 2, "due")
	b.plant("q", 3, "failed", "delayed", "paused", "blocked", "stopped")
	b.plant("other", 1, "stopped")
	b.exec(`UPDATE pgfifo.jobs SET attempts = 2, run_at = statement_timestamp() + interval '1 hour', failures =
		'[{"attempt": 1}, {"attempt": 2, "kind": "error", "error": "no route", "at": "2026-01-01T00:00:00Z"}]'
		WHERE group_id = 'failed'`)
	b.exec(`UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE group_id = 'delayed'`)
	b.exec(`INSERT INTO pgfifo.pauses (queue, group_id, reason, job, by_hand)
		SELECT 'q', 'blocked', 'job has used up', min(id), false FROM pgfifo.jobs WHERE group_id = 'blocked'`)
	require.NoError(t, pausing(b.q.Group("paused").Pause(t.Context(), "under audit")))
	require.NoError(t, pausing(b.q.Group("failed").Pause(t.Context(), "")))
	b.resumes(b.q.Group("failed"))
	require.NoError(t, pausing(b.client.Queue("other").Pause(t.Context(), "all of it")))
	for _, x := range []struct {
		queue, group string
		state        fifo.State
		since        bool
		reason       string
	}{
		{"q", "held", fifo.Held, true, `of q/held runs since 20.*, in session [0-9]+ of "worker of TestWhy"`},
		{"q", "due", fifo.Due, true, "may run since 20.*, and nobody has taken it: no worker handles"},
		{
			"q", "failed", fifo.BackingOff, false,
			`waits until 2.*Z; failed attempts: 2; the last failure, at 2026-01-01T00:00:00Z: error: "no route"$`,
		},
		{"q", "delayed", fifo.Delayed, false, "waits until 9999-12-31.*: it was postponed, or sent"},
		{"q", "paused", fifo.Paused, true, `waits: the group is paused: "under audit"$`},
		{"q", "blocked", fifo.Paused, true, `waits: it blocks the group: "job has used up"$`},
		{"other", "stopped", fifo.Paused, true, `waits: the queue is paused: "all of it"$`},
	} {
		s := b.client.Queue(x.queue)
		why, err := s.Group(x.group).Why(t.Context())
		require.NoError(t, err)
		require.Equal(t, x.state, why.State, x.group)
		require.Equal(t, x.since, !why.Since.IsZero(), x.group)
		require.Regexp(t, x.reason, why.Reason())
		require.Equal(t, why.HeadID, why.JobID)
		require.Equal(t, why.PauseJob, map[string]int64{"blocked": why.HeadID}[x.group])
		byID, err := s.WhyJob(t.Context(), why.HeadID)
		require.NoError(t, err)
		require.Equal(t, why, byID, "the same of the job")
		if why.Queued == 1 {
			continue
		}
		jobs := b.jobsOf(s.Group(x.group))
		last := jobs[len(jobs)-1].ID
		behind, err := s.Group(x.group).WhyJob(t.Context(), last)
		require.NoError(t, err)
		require.Equal(t, fifo.Behind, behind.State)
		require.Equal(t, len(jobs)-1, behind.Ahead)
		require.Equal(t, last, behind.JobID)
		require.Equal(t, why.HeadID, behind.HeadID)
		tail := x.reason[len(x.reason)-8:]
		require.Regexp(t, `waits behind [12] of its group; at its head, job [0-9]+ .*`+tail, behind.Reason())
		require.NotContains(t, behind.Reason(), "may not see")
	}
	require.Equal(t, "no route", b.why("failed").LastFailure.Error)
	require.Nil(t, b.why("due").LastFailure)
	close(h.release)
	require.NoError(t, r.stop())

	id := b.why("failed").HeadID
	require.ErrorIs(t, second(b.q.WhyJob(t.Context(), held)), fifo.ErrJobNotFound)
	require.ErrorIs(t, second(b.q.Group("held").WhyJob(t.Context(), id)), fifo.ErrJobNotFound, "it is another group's")
	_, err := b.q.Group("none").Why(t.Context())
	require.ErrorIs(t, err, fifo.ErrJobNotFound)
	require.ErrorContains(t, err, "the group q/none has none")
	require.ErrorIs(t, second(b.q.Why(t.Context())), fifo.ErrInvalidID)
	require.NoError(t, b.q.Bury(t.Context(), id, "of no use"))
	dead := b.whyJob(id)
	require.Equal(t, fifo.Dead, dead.State)
	require.Equal(t, "failed", dead.GroupID)
	require.WithinDuration(t, time.Now(), dead.Since, time.Minute)
	require.Regexp(t, `is a dead letter since 20.*, after 2 attempts; the last failure, at 20.*: operator: "of no use"`,
		dead.Reason())
}

// Who does not look at the error of Why is told that there is no job.
func TestWhyOfNoJob(t *testing.T) {
	b := newBed(t)
	why, err := b.q.Group("none").Why(t.Context())
	require.ErrorIs(t, err, fifo.ErrJobNotFound)
	require.Equal(t, "there is no job in this Status: see the error of Why or WhyJob", why.Reason())
	why, err = b.q.WhyJob(t.Context(), 1)
	require.ErrorIs(t, err, fifo.ErrJobNotFound)
	require.Equal(t, "there is no job in this Status: see the error of Why or WhyJob", why.Reason())
}

// The row of a job that has failed does not tell why it waits now. So nothing is said that may not be so.
func TestWhyOfASnoozeAfterAFailure(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	says := errOnPurpose
	w := b.worker(func(context.Context, *fifo.Job) error { return says },
		func(w *fifo.Worker) { w.Retry = fifo.Backoff(0, 0) })
	require.True(t, b.runsOne(w))
	says = fifo.Snooze(time.Hour, nil)
	require.True(t, b.runsOne(w))
	why := b.why("g")
	require.Equal(t, fifo.BackingOff, why.State)
	require.Regexp(t, `waits until 20.*Z; failed attempts: 1; the last failure, at 20.*Z: error: `, why.Reason())
	require.NotContains(t, why.Reason(), "next attempt")
}

func (b *bed) why(group string) fifo.Status {
	b.t.Helper()
	why, err := b.q.Group(group).Why(b.t.Context())
	require.NoError(b.t, err)
	return why
}

func (b *bed) whyJob(id int64) fifo.Status {
	b.t.Helper()
	why, err := b.q.WhyJob(b.t.Context(), id)
	require.NoError(b.t, err)
	return why
}

// Who changes the head holds it, also in a savepoint, as all that a handler does is, of whom PostgreSQL does not tell.
func TestWhyOfAnEdit(t *testing.T) {
	b := newBed(t)
	ctx, id, edit := t.Context(), b.send("g", "x")[0], func(job *fifo.Job) error {
		job.Payload = []byte("y")
		return nil
	}
	held := func() {
		t.Helper()
		one := only(t, b.groups(b.q, fifo.Page{}, fifo.Held))
		require.Equal(t, one, b.why("g"))
		require.Equal(t, fifo.Held, one.State)
		require.Zero(t, one.PID)
		err := b.q.Delete(ctx, id)
		require.ErrorIs(t, err, fifo.ErrJobHeld)
		require.Regexp(t, "is locked by somebody who changes it", err)
	}
	for _, ends := range []func(savepoint pgx.Tx) error{
		func(pgx.Tx) error { return nil },
		func(savepoint pgx.Tx) error { return savepoint.Commit(ctx) },
	} {
		tx := b.begin()
		savepoint, err := tx.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, b.q.InPgx(savepoint).Edit(ctx, id, edit))
		require.NoError(t, ends(savepoint))
		held()
		require.NoError(t, tx.Rollback(ctx))
		require.Equal(t, fifo.Due, b.why("g").State)
	}
	b.receipts(fifo.Message{Queue: "repairs", GroupID: "g"})
	h := newBlocking()
	w := b.bare(nil)
	w.Handle("repairs", withPgx(func(ctx context.Context, job *fifo.Job, tx pgx.Tx) error {
		return errors.Join(b.q.InPgx(tx).Edit(ctx, id, edit), h.handle(ctx, job))
	}))
	r := b.run(w)
	receive(t, h.started, "the repair")
	held()
	close(h.release)
	await(t, "the edit", func() bool { return string(b.jobs()[0].Payload) == "y" })
	require.NoError(t, r.stop())
	require.Equal(t, fifo.Due, b.why("g").State)
}

// Outcomes and states are written to JSON as words, each its own, and read again. Others are refused.
func TestWordsInJSON(t *testing.T) {
	t.Parallel()
	outcomes, states := make(map[fifo.Outcome]string), make(map[fifo.State]string)
	for o := fifo.Succeeded; o <= fifo.Unknown; o++ {
		outcomes[o] = o.String()
	}
	for s := fifo.State(0); s <= fifo.Dead; s++ {
		states[s] = s.String()
	}
	require.Equal(t, map[fifo.Outcome]string{
		fifo.Succeeded: "succeeded", fifo.Retried: "retried", fifo.Buried: "buried", fifo.Returned: "returned",
		fifo.Snoozed: "snoozed", fifo.Blocked: "blocked", fifo.Discarded: "discarded", fifo.Unknown: "unknown",
	}, outcomes)
	require.Equal(t, map[fifo.State]string{
		0: "unknown", fifo.Held: "held", fifo.Paused: "paused", fifo.BackingOff: "backing off",
		fifo.Delayed: "delayed", fifo.OverLimit: "over its limit", fifo.Due: "due", fifo.Behind: "behind",
		fifo.Dead: "dead",
	}, states)
	for _, e := range []int{-1, 9} {
		require.Equal(t, "unknown", fifo.Outcome(e).String())
		require.Equal(t, "unknown", fifo.State(e).String())
	}

	text, err := json.Marshal([]any{outcomes, states})
	require.NoError(t, err)
	var gotOutcomes map[fifo.Outcome]string
	var gotStates map[fifo.State]string
	require.NoError(t, json.Unmarshal(text, &[]any{&gotOutcomes, &gotStates}))
	require.Equal(t, outcomes, gotOutcomes)
	require.Equal(t, states, gotStates)

	for s := range states {
		status := fifo.Status{State: s, LastFailure: &fifo.Failure{Kind: fifo.KindLost}}
		back := fifo.Status{State: fifo.Held}
		text, err := json.Marshal(status)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, status, back)
	}
	for o := range outcomes {
		text, err := json.Marshal(o)
		require.NoError(t, err)
		require.Equal(t, strconv.Quote(o.String()), string(text))
		var back fifo.Outcome
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, o, back)
	}

	o, s := fifo.Buried, fifo.Paused
	require.EqualError(t, json.Unmarshal([]byte(`"lost"`), &o), `fifo: invalid outcome: "lost"`)
	require.Equal(t, fifo.Buried, o)
	err = json.Unmarshal([]byte(`"Held"`), &s)
	require.ErrorIs(t, err, fifo.ErrInvalidState)
	require.ErrorContains(t, err, `"Held"`)
	require.Equal(t, fifo.Paused, s)
}
