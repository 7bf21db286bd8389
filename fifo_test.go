package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

// 32 lanes in 4 processes, 50 groups: every job once, in the order of its group, which runs one at a time.
func TestGroupsStayInOrder(t *testing.T) {
	s := newSite(t)
	want := s.fill(30, 12)
	procs := s.crew(3, 4)
	s.until("the first job", func() bool { return len(s.events()) > 0 })
	for group, ids := range s.fill(30, 12) { // while the first are being worked
		want[group] = append(want[group], ids...)
	}
	s.drained()
	s.stop(procs...)

	require.Greater(t, s.replay(), 1, "groups run in parallel")
	require.Equal(t, want, s.effects())
	workers := make(map[string]bool)
	for _, e := range s.events() {
		workers[e.worker] = true
		require.LessOrEqual(t, e.attempt, 1, "no attempt is lost without a death: %+v", e)
	}
	require.Greater(t, len(workers), 1, "processes share the work")
}

func TestBlockedGroupsStopNoOther(t *testing.T) {
	s := newSite(t)
	open := s.gate()
	ctx := t.Context()
	stuck := s.enqueue(message("stuck", task{Do: "gate"}), message("stuck", task{}))
	var behind []int64
	const each = 13 // of a kind: many more than lanes, and few enough for one notice to name all
	var again []fifo.Message
	for i := range each {
		paused, backoff, delayed := fmt.Sprint("paused", i), fmt.Sprint("backoff", i), fmt.Sprint("delayed", i)
		require.NoError(t, pausing(s.client.Queue(queue).Group(paused).Pause(ctx, "")))
		head := message(delayed, task{})
		head.Delay = time.Hour
		ids := s.enqueue(message(paused, task{}), message(backoff, task{Do: "postpone"}), head,
			message(paused, task{}), message(backoff, task{}), message(delayed, task{}))
		behind = append(behind, ids[3:]...)
		again = append(again, message(paused, task{}), message(backoff, task{}), message(delayed, task{}))
	}
	p := s.start(2)
	s.waiting(stuck[0], 1)
	s.until("every backoff", func() bool {
		return s.number("SELECT count(*) FROM pgfifo.jobs WHERE attempts > 0") == each
	})
	// The worker is told to look at all of them.
	require.NoError(t, pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		ids, err := receipt.IDs(s.client.EnqueuePgxTx(ctx, tx, again...))
		behind = append(behind, ids...)
		return err
	}))

	last := s.enqueue(slices.Repeat([]fifo.Message{message("last", task{})}, 200)...)
	s.until("the last group", func() bool { return len(s.effects()["last"]) == len(last) })
	require.Equal(t, map[string][]int64{"last": last}, s.effects())
	for _, id := range append(behind, stuck[1]) {
		require.Empty(t, s.find("start", id), "a head that is not ready holds its group")
	}
	require.Empty(t, s.find("end", stuck[0]), "it was stuck all the time")
	open()
	s.until("the stuck group", func() bool { return slices.Equal(s.effects()["stuck"], stuck) })
	s.stop(p)
	s.replay()
}

func TestEnqueueDoesNotWaitForRunningJob(t *testing.T) {
	s := newSite(t)
	open := s.gate()
	ids := s.enqueue(message("held", task{Do: "spawn"}))
	procs := []*process{s.start(1), s.start(1)}
	s.waiting(ids[0], 1)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	producer, err := s.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = producer.Rollback(ctx) }()
	_, err = s.client.EnqueuePgxTx(ctx, producer, message("new", task{}))
	require.NoError(t, err)
	for _, group := range []string{"held", "spawned", "new"} { // spawned: by the handler, which has not committed
		_, err := s.client.Enqueue(ctx, message(group, task{}))
		require.NoError(t, err, group)
		for way, enqueue := range transactions(s.client, s.Pool) {
			require.NoError(t, enqueue(ctx, message(group, task{}), commits), "%s, %s", group, way)
		}
	}
	require.Empty(t, s.find("end", ids[0]), "the job was running all the time")
	s.until("the groups that are not held", func() bool {
		effects := s.effects()
		return len(effects["spawned"]) == 5 && len(effects["new"]) == 5
	})
	require.Empty(t, s.find("end", ids[0]))
	require.NoError(t, producer.Commit(ctx))
	open()
	s.drained()
	s.stop(procs...)
	effects := s.effects()
	require.Len(t, effects["new"], 6)
	require.Len(t, effects["held"], 6)
	require.Len(t, effects["spawned"], 6, "the handler's own job came with its commit")
}

func TestEnqueueIsPartOfTransaction(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	undo := errors.New("undo")
	ways := transactions(s.client, s.Pool)
	for way, enqueue := range ways {
		require.ErrorIs(t, enqueue(ctx, message(way, task{}), func() error { return undo }), undo, way)
	}
	require.Zero(t, s.jobs(), "rolled back")
	for way, enqueue := range ways {
		require.NoError(t, enqueue(ctx, message(way, task{}), commits), way)
	}
	p := s.start(2)
	s.drained()
	s.stop(p)
	require.ElementsMatch(t, slices.Collect(maps.Keys(ways)), slices.Collect(maps.Keys(s.effects())))
}

// In every snapshot, a job that succeeds is there and its effect is not, or the other way round.
func TestEffectAndCompletionCommitTogether(t *testing.T) {
	s := newSite(t)
	want := make(map[string][]int64)
	total := 0
	for range 40 {
		msgs := []fifo.Message{
			message("success", task{}),
			message("error", task{Do: "error", Until: 1}),
			message("panic", task{Do: "panic", Until: 1}),
		}
		for i, id := range s.enqueue(msgs...) {
			want[msgs[i].GroupID] = append(want[msgs[i].GroupID], id)
			total++
		}
	}
	p := s.start(3)
	s.within(3*patience, "an empty queue", func() bool {
		var jobs, effects int
		err := s.Pool.QueryRow(t.Context(),
			"SELECT (SELECT count(*) FROM pgfifo.jobs), (SELECT count(*) FROM effects)").Scan(&jobs, &effects)
		require.NoError(t, err)
		require.Equal(t, total, jobs+effects)
		return jobs == 0
	})
	s.stop(p)
	require.Equal(t, want, s.effects())
	require.Equal(t, 40, s.number("SELECT count(*) FROM effects WHERE attempt = 1"))
	require.Equal(t, 80, s.number("SELECT count(*) FROM effects WHERE attempt = 2"))
	s.replay()
}

func TestFailedAttemptsLeaveNoEffect(t *testing.T) {
	s := newSite(t)
	for _, kind := range []string{fifo.KindError, fifo.KindPanic} {
		m := message(kind, task{Do: kind})
		m.MaxAttempts = 2
		s.enqueue(m)
	}
	p := s.start(2)
	s.drained()
	s.stop(p)
	dead, err := s.client.DeadLetters(t.Context(), fifo.Letters{})
	require.NoError(t, err)
	require.Len(t, dead, 2)
	for _, d := range dead {
		require.Equal(t, 2, d.Attempts)
		require.Len(t, d.Failures, 2)
		for i, failure := range d.Failures {
			require.Equal(t, d.GroupID, failure.Kind)
			require.Equal(t, i+1, failure.Attempt)
			require.Contains(t, failure.Error, "as told")
		}
	}
	require.Empty(t, s.effects())
}

// A lower id than those that were worked already is worked too, whether or not anybody tells the worker.
func TestLateCommitIsWorked(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, pollOnly bool) {
		s := newSite(t)
		s.pollOnly = pollOnly
		client := fifo.Open(s.Pool, &fifo.Config{PollOnly: pollOnly})
		defer func() { _ = client.Close() }()
		p := s.start(2)

		tx, err := s.Pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		late, err := receipt.IDs(client.EnqueuePgxTx(t.Context(), tx, message("g", task{})))
		require.NoError(t, err)
		// More than a group gets done while the test has patience.
		msgs := slices.Repeat([]fifo.Message{message("g", task{Do: "nap"})}, 5000)
		later, err := receipt.IDs(client.Enqueue(t.Context(), msgs...))
		require.NoError(t, err)
		require.Less(t, late[0], later[0])
		s.until("some of the later ids", func() bool { return slices.Contains(s.effects()["g"], later[100]) })
		require.Empty(t, s.find("start", late[0]), "not committed")
		require.NoError(t, tx.Commit(t.Context()))
		s.until("the lower id", func() bool { return slices.Contains(s.effects()["g"], late[0]) })
		_, err = s.client.Queue(queue).Group("g").Purge(t.Context())
		require.NoError(t, err)
		s.drained()
		s.stop(p)
		ids := s.effects()["g"]
		at := slices.Index(ids, late[0])
		ids = slices.Delete(ids, at, at+1)
		require.Equal(t, later[:len(ids)], ids, "the others in order, once each")
	})
}
