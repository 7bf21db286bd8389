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
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
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
	await(t, "what the hooks hear of them", func() bool {
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
		return b.ledger.count(fifo.Buried) == 4
	})
}

// lastAttempts are queues in which a job is given up.
var lastAttempts = map[string]struct {
	sent     string // the payloads, each a letter
	fails    string // of them
	attempts int
	queue    fifo.Queue
}{
	"after ROLLBACK": {"1", "1", 1, fifo.Queue{Handler: failsOutside, MaxAttempts: 1}},
	"one group":      {"123", "2", 2, fifo.Queue{Handler: failingOn("2", errOnPurpose), MaxAttempts: 2, BatchJobs: 3}},
	"many groups":    {"2", "2", 2, fifo.Queue{Handler: failingOn("2", errOnPurpose), MaxAttempts: 2, BatchGroups: 3}},
	"as told":        {"1", "1", 1, fifo.Queue{Handler: failing(9, fifo.DeadLetter(errOnPurpose)), MaxAttempts: 9}},
	"lost": {"1", "1", 1, fifo.Queue{Handler: func(ctx context.Context, job *fifo.Job) error {
		err := exec(ctx, job, "SELECT pg_terminate_backend(pg_backend_pid())")
		<-ctx.Done()
		return err
	}, MaxAttempts: 1}},
}

// Whatever a queue does with jobs that it gives up: it does so also if the handler has ended the job's transaction, if
// its connection is lost, and of a job in a batch. What a handler says is a dead letter is one, or moves.
func TestDeadLetterQueueElsewhere(t *testing.T) {
	b := newBed(t)
	w := b.bare(nil)
	type end struct {
		outcome fifo.Outcome
		moves   bool
		of      string // lastAttempts
	}
	ends := make(map[string]end) // by queue
	for name, x := range lastAttempts {
		for up, outcome := range map[fifo.GiveUp]fifo.Outcome{
			fifo.ToDeadLetters: fifo.Buried, fifo.BlockGroup: fifo.Blocked, fifo.Discard: fifo.Discarded,
		} {
			if name == "as told" {
				outcome = fifo.Buried
			}
			for _, to := range []string{"", "morgue"} {
				queue := fmt.Sprint(name, up, to)
				ends[queue] = end{outcome, outcome == fifo.Buried && to != "", name}
				x.queue.OnGiveUp, x.queue.DeadLetterQueue = up, to
				w.HandleQueue(queue, x.queue)
				for _, payload := range x.sent {
					b.receipts(fifo.Message{Queue: queue, GroupID: queue, Payload: string(payload)})
				}
			}
		}
	}
	r := b.run(w)
	await(t, "the ends of all", func() bool {
		s := w.Stats()
		return s.Buried == 2*4+6 && s.Blocked == 2*4 && s.Discarded == 2*4
	})
	await(t, "those behind", func() bool { return b.count("jobs") == 7+2*5 }) // moved, and blocked
	require.NoError(t, r.stop())
	for queue, end := range ends {
		outcomes, _, _ := b.ledger.of(queue)
		require.Contains(t, outcomes, end.outcome, queue)
		b.givenUp(queue, end.outcome, end.moves, end.of)
	}
	require.Zero(t, b.count("attempt_marks"))
}

// givenUp checks where the job is that the queue of lastAttempts has given up, and that there is no other.
func (b *bed) givenUp(queue string, outcome fifo.Outcome, moves bool, name string) {
	b.t.Helper()
	x, q := lastAttempts[name], b.client.Queue(queue)
	left, letters := b.jobsOf(q), b.lettersOf(q, fifo.Letters{})
	moved := b.jobsOf(b.client.Queue("morgue").Group(queue))
	var found fifo.Job
	switch {
	case outcome == fifo.Blocked:
		found, left = left[0], nil // and those behind it
		require.Equal(b.t, x.attempts, found.Attempts, queue)
		status, err := q.Group(queue).Why(b.t.Context())
		require.NoError(b.t, err)
		require.Equal(b.t, found.ID, status.PauseJob, queue)
	case moves:
		found, moved = only(b.t, moved), nil
		require.Zero(b.t, found.Attempts)
		require.Equal(b.t, found.Failures[len(found.Failures)-1].Error, found.Headers[fifo.OriginError])
	case outcome == fifo.Buried:
		found, letters = only(b.t, letters), nil
	}
	require.Empty(b.t, slices.Concat(left, letters, moved), queue)
	if outcome != fifo.Discarded {
		require.Equal(b.t, x.fails, string(found.Payload), queue)
		require.Len(b.t, found.Failures, x.attempts, queue)
	}
}

// Headers by hand that leave no room for those that say where the job was do not keep it from moving.
func TestDeadLetterQueueOfHeadersByHand(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"no object": "'[]'", "no room": "jsonb_build_object('a', repeat('x', 16777200))",
	}, func(t *testing.T, headers string) {
		b := newBed(t)
		id := b.hopeless("g", fifo.Message{Payload: "x"})[0]
		b.exec("UPDATE pgfifo.jobs SET headers = " + headers)
		w := b.bare(nil)
		w.HandleQueue("q", fifo.Queue{Handler: failing(1, errOnPurpose), DeadLetterQueue: "morgue", MaxAttempts: 1})
		b.run(w)
		await(t, "the move", func() bool { return b.count("jobs WHERE queue = 'morgue'") == 1 })
		require.Equal(t, origin(nil, id, 1, errOnPurpose.Error()), only(t, b.jobs()).Headers)
	})
}

// What the SQL function has enqueued keeps its headers when it moves, and moves again.
func TestDeadLetterQueueOfLongHeaders(t *testing.T) {
	b := newBed(t)
	b.exec(`SELECT pgfifo.enqueue('q', 'g', '{}'::text,
		jsonb_build_object('a', 'b', 'long', jsonb_build_object('base64', repeat(E'\n', 4194280))))`)
	for _, next := range []string{"q2", "q3"} {
		w := b.bare(nil)
		w.HandleQueue("q", fifo.Queue{Handler: failing(1, errOnPurpose), DeadLetterQueue: next, MaxAttempts: 1})
		r := b.run(w)
		await(t, "the move", func() bool { return b.count("jobs WHERE queue = '"+next+"'") == 1 })
		require.NoError(t, r.stop())
		require.Equal(t, "b", only(t, b.jobs()).Headers["a"])
		b.exec("UPDATE pgfifo.jobs SET queue = 'q'")
	}
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
