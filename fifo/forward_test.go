package fifo_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/receipt"
)

// hopeless enqueues jobs to a group of queue q, which are to leave it for another queue.
func (b *bed) hopeless(group string, msgs ...fifo.Message) []int64 {
	b.t.Helper()
	for i := range msgs {
		msgs[i].Queue, msgs[i].GroupID = "q", group
	}
	ids, err := receipt.IDs(b.client.Enqueue(b.t.Context(), msgs...))
	require.NoError(b.t, err)
	return ids
}

// origin returns what a job's headers must be that has moved from queue q.
func origin(headers fifo.Headers, id int64, attempts int, text string) fifo.Headers {
	all := fifo.Headers{
		fifo.OriginQueue: "q", fifo.OriginID: strconv.FormatInt(id, 10),
		fifo.OriginAttempts: strconv.Itoa(attempts), fifo.OriginError: text,
	}
	maps.Copy(all, headers)
	return all
}

// A job that has used up its attempts moves to the queue of dead letters, to the end of the group there, and its group
// goes on. A worker of that queue hears of it.
func TestDeadLetterQueue(t *testing.T) { overLeases(t, testDeadLetterQueue) }

func testDeadLetterQueue(t *testing.T, by lease) {
	b := by.on(newBed(t), "morgue")
	headers := fifo.Headers{"traceparent": "00-x", "bytes": "\x00\xff", fifo.OriginError: "of an earlier move"}
	moved := make(chan *fifo.Job, 3)
	other := &fifo.Worker{Client: b.open(pgtest.Connect(t, b.url)), Concurrency: 1, MaxAttempts: 5}
	rarePolls(other)
	other.Handle("morgue", func(_ context.Context, job *fifo.Job) error {
		its := *job
		moved <- &its
		return nil
	})
	b.run(other)
	w := b.bare(nil)
	w.HandleQueue("q", fifo.Queue{
		DeadLetterQueue: "morgue",
		Handler: b.ledger.record(func(_ context.Context, job *fifo.Job) error {
			if string(job.Payload) == "fine" {
				return nil
			}
			return errOnPurpose
		}),
	})
	b.run(w)
	e := b.listen()
	for range 2 {
		first := b.hopeless("g", fifo.Message{Payload: "one", Headers: headers, MaxAttempts: 2},
			fifo.Message{Payload: "two"}, fifo.Message{Payload: "fine"})
		for i, want := range []string{"one", "two"} {
			job := receive(t, moved, "a dead letter")
			require.Equal(t, "g", job.GroupID)
			require.Equal(t, want, string(job.Payload))
			require.Greater(t, job.ID, first[2])
			require.Zero(t, job.Attempts)
			require.Equal(t, 5, job.MaxAttempts, "not the message's")
			if i == 0 {
				its := maps.Clone(headers)
				delete(its, fifo.OriginError)
				require.Equal(t, origin(its, first[0], 2, errOnPurpose.Error()), job.Headers)
			} else {
				require.Equal(t, origin(nil, first[1], 3, errOnPurpose.Error()), job.Headers)
			}
		}
		b.drained()
	}
	for !strings.Contains(e.next(), "morgue") {
	}
	require.Empty(t, b.deadLetters())
	require.EqualValues(t, 4, w.Stats().Buried)
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	require.Equal(t, 4, b.ledger.count(fifo.Buried))
}

// Whatever a queue does with jobs that it gives up: it does so also if the handler has ended the job's transaction, if
// its connection is lost, and of a job in a batch. What a handler says is a dead letter is one, or moves.
func TestDeadLetterQueueElsewhere(t *testing.T) {
	second := failingOn("2", errOnPurpose)
	killed := func(ctx context.Context, job *fifo.Job) error {
		err := exec(ctx, job, "SELECT pg_terminate_backend(pg_backend_pid())")
		<-ctx.Done()
		return err
	}
	rows := map[string]struct {
		queue fifo.Queue
		sent  []string
		fails string
	}{
		"transaction ended": {fifo.Queue{Handler: failsOutside, MaxAttempts: 1}, []string{"1"}, "1"},
		"batch of a group": {
			fifo.Queue{Handler: second, MaxAttempts: 2, BatchJobs: 3},
			[]string{"1", "2", "3"},
			"2",
		},
		"batch of groups": {fifo.Queue{Handler: second, MaxAttempts: 2, BatchGroups: 3}, []string{"2"}, "2"},
		"lost":            {fifo.Queue{Handler: killed, MaxAttempts: 1}, []string{"1"}, "1"},
		"as told": {
			fifo.Queue{Handler: failing(9, fifo.DeadLetter(errOnPurpose)), MaxAttempts: 9},
			[]string{"1"},
			"1",
		},
	}
	ways := []fifo.Queue{
		{}, {OnGiveUp: fifo.BlockGroup}, {OnGiveUp: fifo.Discard}, {DeadLetterQueue: "morgue"},
		{OnGiveUp: fifo.BlockGroup, DeadLetterQueue: "morgue"},
	}
	outcomes := map[fifo.GiveUp]fifo.Outcome{
		fifo.ToDeadLetters: fifo.Buried, fifo.BlockGroup: fifo.Blocked, fifo.Discard: fifo.Discarded,
	}
	b := newBed(t)
	w := b.bare(nil)
	of := func(name string, way int) string { return fmt.Sprint(name, " ", way) }
	for name, x := range rows {
		for i, way := range ways {
			queue := of(name, i)
			x.queue.OnGiveUp, x.queue.DeadLetterQueue = way.OnGiveUp, way.DeadLetterQueue
			w.HandleQueue(queue, x.queue)
			for _, payload := range x.sent {
				b.receipts(fifo.Message{Queue: queue, GroupID: queue, Payload: payload})
			}
		}
	}
	r := b.run(w)
	await(t, "the ends of all", func() bool {
		s := w.Stats()
		return s.Buried == 13 && s.Blocked == 8 && s.Discarded == 4
	})
	await(t, "those behind", func() bool { return b.count("jobs") == 10+6 })
	require.NoError(t, r.stop())
	for name, x := range rows {
		for i, way := range ways {
			queue, want, attempts := of(name, i), outcomes[way.OnGiveUp], x.queue.MaxAttempts
			if name == "as told" {
				want, attempts = fifo.Buried, 1
			}
			ends, _, _ := b.ledger.of(queue)
			require.Contains(t, ends, want, queue)
			letters := b.lettersOf(b.client.Queue(queue), fifo.Letters{})
			moved := b.jobsOf(b.client.Queue("morgue").Group(queue))
			left := b.jobsOf(b.client.Queue(queue))
			switch {
			case want == fifo.Blocked:
				require.Equal(t, x.fails, string(left[0].Payload), queue)
				require.Equal(t, attempts, left[0].Attempts, queue)
				status, err := b.client.Queue(queue).Group(queue).Why(t.Context())
				require.NoError(t, err)
				require.Equal(t, left[0].ID, status.PauseJob, queue)
				left = nil
			case want == fifo.Buried && way.DeadLetterQueue == "":
				require.Equal(t, x.fails, string(only(t, letters).Payload), queue)
				letters = nil
			case want == fifo.Buried:
				job := only(t, moved)
				require.Equal(t, x.fails, string(job.Payload), queue)
				require.Zero(t, job.Attempts)
				require.Len(t, job.Failures, attempts, queue)
				require.Equal(t, job.Failures[len(job.Failures)-1].Error, job.Headers[fifo.OriginError])
				moved = nil
			}
			require.Empty(t, slices.Concat(left, letters, moved), queue)
		}
	}
	require.Zero(t, b.count("attempt_marks"))
}

// A job that cannot be moved stays, with its attempts, until it can.
func TestDeadLetterQueueThatRefuses(t *testing.T) { overLeases(t, testDeadLetterQueueThatRefuses) }

func testDeadLetterQueueThatRefuses(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''full''; END'`)
	b.exec(`CREATE TRIGGER refuse BEFORE INSERT ON pgfifo.jobs FOR EACH ROW WHEN (NEW.queue = 'morgue')
		EXECUTE FUNCTION refuse()`)
	ids := b.hopeless("g", fifo.Message{Payload: "x"})
	w := b.bare(nil)
	w.HandleQueue("q", fifo.Queue{Handler: failing(99, errOnPurpose), DeadLetterQueue: "morgue", MaxAttempts: 1})
	b.run(w)
	await(t, "trouble", func() bool { return w.Stats().Troubles > 0 })
	require.Equal(t, ids[0], b.jobs()[0].ID)
	b.exec("DROP TRIGGER refuse ON pgfifo.jobs")
	await(t, "the move", func() bool { return b.count("jobs WHERE queue = 'morgue'") == 1 })
	require.Equal(t, 1, b.count("jobs"))
}
