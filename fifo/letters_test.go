package fifo_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

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
	b.exec("INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, failures)" +
		"VALUES ('q', 'c', 1006, '', 0, now(), NULL), ('q', 'd', 1007, '', 0, now(), '[]')," +
		"('p', 'a', 1001, '', 0, now(), NULL)")
	place := func(group string, id int64) string {
		return (&fifo.Job{Queue: "q", GroupID: group, ID: id}).Cursor()
	}
	for _, x := range []struct {
		of   fifo.Scope
		what fifo.Letters
		want []int64
	}{
		{q, fifo.Letters{All: true}, []int64{1001, 1004, 1005, 1002, 1003, 1006, 1007}},
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
		{q, fifo.Letters{Kind: "err"}, nil},
		{q, fifo.Letters{Error: "such font"}, []int64{1001, 1005, 1002}},
		{q, fifo.Letters{Error: "no such"}, []int64{1001, 1002}},
		{q, fifo.Letters{Error: "0%"}, []int64{1001}},
		{q, fifo.Letters{Error: "%"}, []int64{1001}},
		{q, fifo.Letters{Error: "the one before"}, nil},
		{q, fifo.Letters{Kind: fifo.KindPanic, Error: "one"}, []int64{1003}},
		{q, fifo.Letters{Kind: fifo.KindTimeout, Error: "font"}, nil},
		{q, fifo.Letters{Kind: "' OR true --", Error: `\`}, nil},
		{q, fifo.Letters{IDs: []int64{}}, nil},
	} {
		b.exec("DELETE FROM pgfifo.dead_letters WHERE queue = 'q' AND group_id < 'c'")
		b.died(planted...)
		list := b.lettersOf(x.of, x.what)
		require.Equal(t, x.want, letterIDs(list), "list %v %+v", x.of, x.what)
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
		list = b.lettersOf(x.of, x.what)
		if x.what.Limit == 0 {
			require.Empty(t, list, "%v %+v", x.of, x.what)
		}
		b.exec("INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, failures)" +
			"VALUES ('q', 'c', 1006, '', 0, now(), NULL), ('q', 'd', 1007, '', 0, now(), '[]') " +
			"ON CONFLICT DO NOTHING")
	}
	require.Equal(t, 1, query[int](b, "SELECT count(*) FROM pgfifo.dead_letters WHERE queue = 'p'"))
}

// What names nothing is nothing, and what names too much is an error before any SQL.
func TestLettersAreChecked(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	q := nowhere(t).Queue("q")
	for _, s := range []fifo.Scope{q, q.Group("g")} {
		for _, none := range []fifo.Letters{
			{}, named(), {IDs: []int64{}}, {Limit: 10}, {After: (&fifo.Job{Queue: "q", GroupID: "g"}).Cursor()},
		} {
			n, err := s.DeleteDeadLetters(ctx, none)
			require.NoError(t, err)
			require.Zero(t, n)
			jobs, last, err := s.Redrive(ctx, toTail(none))
			require.NoError(t, err)
			require.Empty(t, jobs)
			require.Equal(t, none.After, last)
		}
		for _, bad := range []fifo.Letters{
			{IDs: []int64{1}, All: true},
			{IDs: []int64{}, Kind: fifo.KindError},
			{All: true, Error: "x"},
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
