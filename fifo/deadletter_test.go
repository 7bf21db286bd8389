package fifo_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
)

// bury makes dead letters of all jobs that say "dead".
func (b *bed) bury() {
	b.t.Helper()
	for _, job := range b.jobs() {
		if string(job.Payload) == "dead" {
			require.NoError(b.t, b.client.Queue(job.Queue).Bury(b.t.Context(), job.ID, "on purpose"))
		}
	}
}

func letterIDs(list []fifo.Job) (ids []int64) {
	for _, l := range list {
		ids = append(ids, l.ID)
	}
	return ids
}

// named are dead letters by their ids.
func named(ids ...int64) fifo.Letters { return fifo.Letters{IDs: ids} }

// again redrives the dead letters with the given ids to their places.
func again(ids ...int64) fifo.Redrive { return fifo.Redrive{Letters: named(ids...)} }

var allAgain = fifo.Redrive{Letters: fifo.Letters{All: true}}

// counted returns how many were redriven.
func counted(jobs []int64, _ string, err error) (int, error) { return len(jobs), err }

func TestDeadLetters(t *testing.T) {
	b := newBed(t)
	var ids []int64
	for i := range 7 {
		ids = append(ids, b.send(fmt.Sprint("g", i%2), "dead")...)
	}
	b.bury()
	list := func(of lister) []int64 { return letterIDs(b.lettersOf(of, fifo.Letters{})) }
	odd := []int64{ids[1], ids[3], ids[5]}
	all := append([]int64{ids[0], ids[2], ids[4], ids[6]}, odd...) // by group
	require.Equal(t, all, list(b.client))
	require.Equal(t, all, list(b.q))
	require.Equal(t, odd, list(b.q.Group("g1")))
	require.Empty(t, list(b.client.Queue("none")))
	require.Empty(t, list(b.client.Queue("none").Group("g1")))
	require.Empty(t, list(b.q.Group("' OR ?0 --")))

	l := only(t, b.lettersOf(b.client, fifo.Letters{Limit: 1}))
	require.Equal(t, groups.Key{Queue: "q", GroupID: "g0"}, l.Group())
	require.Equal(t, "dead", string(l.Payload))
	require.Len(t, l.Failures, 1)
	require.InDelta(t, 0, time.Since(l.DiedAt).Seconds(), 60)
	require.False(t, l.EnqueuedAt.After(l.DiedAt))
}

// Redriven jobs go back to their old places: before what was enqueued later, with attempts anew and their history kept.
func TestRedrive(t *testing.T) {
	b := newBed(t)
	b.ledger.unordered = true
	ids := b.send("g", "dead", "fine", "dead", "dead")
	other := b.send("h", "dead")
	b.bury()
	g := b.q.Group("g")
	waiting := b.send("g", "waits")
	require.Len(t, b.redrive(g, again(ids[2], ids[1])), 1)
	jobs := b.jobs()
	require.Len(t, jobs, 3)
	require.Equal(t, ids[2], jobs[1].ID)
	require.Zero(t, jobs[1].Attempts)
	require.Len(t, jobs[1].Failures, 1)
	require.Len(t, b.redrive(g, allAgain), 2, "the rest of the group")
	require.Empty(t, b.redrive(g, allAgain))
	require.Len(t, b.redrive(b.q, again(other[0])), 1, "of any group of the queue")
	require.Empty(t, b.deadLetters())

	b.work(b.worker(nop, oneLane))
	require.Equal(t, make([]int, 6), b.counted())
	_, _, order := b.ledger.of("g")
	require.Equal(t, append(ids, waiting...), order)
}

// The sweep drops dead letters that are older than their queue keeps them, whether the worker handles it or not, and
// rows of idle groups, and nothing else.
func TestSweep(t *testing.T) {
	b := newBed(t)
	b.send("old", "dead")
	young := b.send("young", "dead")
	b.bury()
	b.exec("UPDATE pgfifo.dead_letters SET died_at = died_at - interval '1 day' WHERE group_id = 'old'")
	b.ledger.sent = nil
	b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id) 
		SELECT 'q', g::text FROM generate_series(1, 2500) g UNION SELECT 'q', unnest('{old,young,idle}'::text[])`)
	b.exec("UPDATE pgfifo.queue_groups SET created_at = created_at - interval '1 hour'")
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'fresh')")
	b.sendAll(fifo.Message{Queue: "q", GroupID: "1234", Delay: time.Hour}, fifo.Message{Queue: "q", GroupID: "held"})
	b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id, created_at) VALUES ('q', 'held', '2000-01-01')`)
	b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, died_at)
		SELECT l.queue, 'g', n, '', 1, now(), now() - l.age::interval
		FROM (VALUES ('kept', '9 years', 1, 1), ('other', '9 years', 1, 1), ('month', '40 days', 1, 2500),
		             ('month', '9 days', 3000, 3000), ('week', '9 days', 1, 1)) AS l (queue, age, first, last),
		     generate_series(l.first, l.last) n`)
	const day = 24 * time.Hour
	for queue, age := range map[string]time.Duration{"q": time.Hour, "month": 30 * day, "kept": 0, "week": 7 * day} {
		require.NoError(t, b.client.Queue(queue).Configure(t.Context(), fifo.Settings{DeadLetterRetention: age}))
	}
	h := newBlocking()
	b.run(b.worker(h.handle, func(w *fifo.Worker) { w.SweepInterval = 20 * time.Millisecond }))
	receive(t, h.started, "the holder")
	await(t, "the sweep", func() bool { return b.count("queue_groups") == 3 && b.count("dead_letters") == 4 })
	require.Equal(t, []string{"kept", "month", "other", "q"},
		query[[]string](b, "SELECT array_agg(queue ORDER BY queue) FROM pgfifo.dead_letters"))
	require.Equal(t, young, letterIDs(b.lettersOf(b.q, fifo.Letters{})))
	require.Equal(t, []string{"1234", "fresh", "held"},
		query[[]string](b, "SELECT array_agg(group_id ORDER BY group_id) FROM pgfifo.queue_groups"))
	close(h.release)
	b.send("idle", nil) // a collected row is made again
	await(t, "the idle group's job", func() bool { return b.count("jobs") == 1 })
}

// A list, a redrive and a deletion choose the same dead letters: by their ids, or by their last failures, a part of
// them at a time.
func TestLettersAreChosen(t *testing.T) {
	b := newBed(t)
	ctx, q := t.Context(), b.q
	planted := []fifo.Job{
		letter("a", 1001, fifo.KindError, "no such font: 100%"), letter("a", 1004, fifo.KindTimeout, "too late"),
		letter("a", 1005, fifo.KindError, "No such font"), letter("b", 1002, fifo.KindError, "no such font"),
		letter("b", 1003, fifo.KindPanic, "the one after"),
	}
	place := func(group string, id int64) string {
		return (&fifo.Job{Queue: "q", GroupID: group, ID: id}).Cursor()
	}
	for _, x := range []struct {
		of   fifo.Scope
		what fifo.Letters
		want []int64
	}{
		{q, fifo.Letters{All: true}, []int64{1001, 1004, 1005, 1002, 1003, 1006, 1007}},
		{b.client.Queue("none"), fifo.Letters{All: true}, nil},
		{b.client.Queue("none"), fifo.Letters{IDs: []int64{1001}}, nil},
		{q.Group("b"), fifo.Letters{All: true}, []int64{1002, 1003}},
		{q, fifo.Letters{All: true, Limit: 3}, []int64{1001, 1004, 1005}},
		{q, fifo.Letters{All: true, Limit: 2, After: place("a", 1004)}, []int64{1005, 1002}},
		{q, fifo.Letters{All: true, After: place("a", 1<<62)}, []int64{1002, 1003, 1006, 1007}},
		{q, fifo.Letters{All: true, After: (&fifo.Job{Queue: "r", GroupID: "a"}).Cursor()}, nil},
		{q.Group("b"), fifo.Letters{All: true, After: place("a", 1005)}, []int64{1002, 1003}},
		{q.Group("b"), fifo.Letters{All: true, After: place("b", 1002)}, []int64{1003}},
		{q.Group("b"), fifo.Letters{All: true, After: place("c", 0)}, nil},
		{q, fifo.Letters{IDs: []int64{1003, 1001, 1001, 7}}, []int64{1001, 1003}},
		{q, fifo.Letters{IDs: []int64{1003, 1001}, Limit: 1}, []int64{1001}},
		{q.Group("b"), fifo.Letters{IDs: []int64{1003, 1001}}, []int64{1003}},
		{q, fifo.Letters{Kind: fifo.KindError}, []int64{1001, 1005, 1002}},
		{q, fifo.Letters{Kind: fifo.KindError, Limit: 2}, []int64{1001, 1005}},
		{q, fifo.Letters{Kind: fifo.KindError, After: place("a", 1004)}, []int64{1005, 1002}},
		{q.Group("a"), fifo.Letters{Kind: fifo.KindTimeout}, []int64{1004}},
		{q, fifo.Letters{Kind: fifo.KindOperator}, nil},
		{q, fifo.Letters{Error: "such font"}, []int64{1001, 1005, 1002}},
		{q, fifo.Letters{Error: "no such"}, []int64{1001, 1002}},
		{q, fifo.Letters{Error: "0%"}, []int64{1001}},
		{q, fifo.Letters{Error: "%"}, []int64{1001}},
		{q, fifo.Letters{Error: "the one before"}, nil},
		{q, fifo.Letters{Kind: fifo.KindPanic, Error: "one"}, []int64{1003}},
		{q, fifo.Letters{Kind: fifo.KindTimeout, Error: "font"}, nil},
		{q, fifo.Letters{Error: `' OR true --\`}, nil},
		{q, fifo.Letters{IDs: []int64{}}, nil},
	} {
		b.exec(`DELETE FROM pgfifo.dead_letters;
			INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, failures)
			VALUES ('q', 'c', 1006, '', 0, now(), NULL), ('q', 'd', 1007, '', 0, now(), '[]'),
				('p', 'a', 1001, '', 0, now(), NULL)`)
		b.died(planted...)
		require.Equal(t, x.want, letterIDs(b.lettersOf(x.of, x.what)), "list %v %+v", x.of, x.what)
		for _, tail := range []bool{false, true} {
			tx := b.begin()
			before := b.lettersOf(q.InPgx(tx), fifo.Letters{})
			jobs, last, err := x.of.InPgx(tx).Redrive(ctx, fifo.Redrive{Letters: x.what, ToTail: tail})
			require.NoError(t, err)
			moved := b.redriven(before, q.InPgx(tx))
			require.Equal(t, x.want, letterIDs(moved), "redrive %v %+v", x.of, x.what)
			require.Len(t, jobs, len(x.want))
			if !tail {
				require.Equal(t, x.want, jobs)
			}
			place := x.what.After
			if len(moved) > 0 {
				place = moved[len(moved)-1].Cursor()
			}
			require.Equal(t, place, last)
			require.NoError(t, tx.Rollback(ctx))
		}
		n, err := x.of.DeleteDeadLetters(ctx, x.what)
		require.NoError(t, err)
		require.Len(t, x.want, n, "delete %v %+v", x.of, x.what)
		if x.what.Limit == 0 {
			require.Empty(t, b.lettersOf(x.of, x.what), "%v %+v", x.of, x.what)
		}
		require.Equal(t, 1, b.count("dead_letters WHERE queue = 'p'"))
	}
}

// What names nothing is nothing, and what names too much is an error before any SQL.
func TestLettersAreChecked(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	q := nowhere(t).Queue("q")
	for _, s := range []fifo.Scope{q, q.Group("g")} {
		for _, none := range []fifo.Letters{
			{IDs: []int64{}},
			{IDs: []int64{}, Limit: 10},
			{All: true, After: (&fifo.Job{Queue: "r", GroupID: "g"}).Cursor()},
		} {
			n, err := s.DeleteDeadLetters(ctx, none)
			require.NoError(t, err)
			require.Zero(t, n)
			jobs, last, err := s.Redrive(ctx, toTail(none))
			require.NoError(t, err)
			require.Empty(t, jobs)
			require.Equal(t, none.After, last)
		}
		// A list of these has all. What changes something is told, or a program would think that it had changed all.
		for _, unchosen := range []fifo.Letters{
			{}, named(), {Limit: 10}, {After: (&fifo.Job{Queue: "q", GroupID: "g"}).Cursor()},
		} {
			_, err := s.DeleteDeadLetters(ctx, unchosen)
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", unchosen)
			require.ErrorContains(t, err, "choose none")
			_, _, err = s.Redrive(ctx, toTail(unchosen))
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", unchosen)
			_, err = s.DeadLetters(ctx, unchosen)
			require.NotErrorIs(t, err, fifo.ErrInvalidID, "it has asked the server, which is nowhere")
		}
		for _, bad := range []fifo.Letters{
			{IDs: []int64{1}, All: true},
			{IDs: []int64{}, Kind: fifo.KindError},
			{All: true, Error: "x"},
			{Kind: "err"},
			{Kind: "\x00"},
			{Error: "\xff"},
			{All: true, After: (&fifo.Job{Queue: "q", GroupID: "\x00"}).Cursor()},
			{All: true, After: "q/g/1"},
		} {
			_, err := s.DeleteDeadLetters(ctx, bad)
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", bad)
			_, _, err = s.Redrive(ctx, fifo.Redrive{Letters: bad})
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", bad)
			_, err = s.DeadLetters(ctx, bad)
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", bad)
		}
	}
	for _, x := range []struct {
		of   fifo.Scope
		edit fifo.Redrive
		want error
	}{
		{q, fifo.Redrive{Letters: named(1), Payload: ""}, fifo.ErrInvalidID},
		{q.Group("g"), fifo.Redrive{Letters: named(1, 2), Payload: ""}, fifo.ErrInvalidID},
		{q.Group("g"), fifo.Redrive{Letters: fifo.Letters{All: true, Limit: 1}, Payload: ""}, fifo.ErrInvalidID},
		{q.Group("g"), fifo.Redrive{Payload: ""}, fifo.ErrInvalidID},
		{q.Group("g"), fifo.Redrive{Letters: named(1), Payload: func() {}}, fifo.ErrInvalidMessage},
		{q.Group("g"), fifo.Redrive{Letters: named(1), Headers: fifo.Headers{"": ""}}, fifo.ErrInvalidMessage},
		{
			q.Group("g"),
			fifo.Redrive{Letters: named(1), Payload: strings.Repeat("x", fifo.MaxPayloadBytes+1)},
			fifo.ErrPayloadTooLarge,
		},
	} {
		_, _, err := x.of.Redrive(ctx, x.edit)
		require.ErrorIs(t, err, x.want, "%+v", x.edit)
	}
}
