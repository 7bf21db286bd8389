package fifo_test

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
)

func jobPlaces(list []fifo.Job) (places []fifo.Position) {
	for i := range list {
		places = append(places, list[i].Position())
	}
	return places
}

// Every page goes on where the one before ends, in each scope, and wherever the place is.
func TestPages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, queue := range []string{"p", "q", "r"} {
		b.plant(queue, 3, "a", "b", "é\\' ?")
	}
	b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		SELECT queue, group_id, id, payload, 1, enqueued_at FROM pgfifo.jobs`)
	all := jobPlaces(b.jobs())
	require.Len(t, all, 27)
	within := func(queue, id string) (places []fifo.Position) {
		for _, p := range all {
			if p.Queue == queue && (id == "" || p.GroupID == id) {
				places = append(places, p)
			}
		}
		return places
	}
	q := b.client.Queue("q")
	for _, x := range []struct {
		of   lister
		want []fifo.Position
	}{
		{b.client, all},
		{b.client.Queue("p"), within("p", "")},
		{q, within("q", "")},
		{q.Group("a"), within("q", "a")},
		{q.Group("b"), within("q", "b")},
	} {
		for limit := range 5 {
			b.inPages(x.of, x.want, limit)
		}
		for _, place := range append(all, fifo.Position{}) {
			b.behind(x.of, x.want, place)
		}
	}
}

// inPages reads all pages of jobs and of dead letters. They are copies.
func (b *bed) inPages(of lister, want []fifo.Position, limit int) {
	b.t.Helper()
	var jobs, dead []fifo.Position
	for page := (fifo.Page{Limit: limit}); ; page.After = jobs[len(jobs)-1] {
		list, err := of.Jobs(b.t.Context(), page)
		require.NoError(b.t, err)
		if len(list) == 0 {
			break
		}
		if limit > 0 {
			require.LessOrEqual(b.t, len(list), limit)
		}
		jobs = append(jobs, jobPlaces(list)...)
		letters, err := of.DeadLetters(b.t.Context(), fifo.Letters{After: page.After, Limit: page.Limit})
		require.NoError(b.t, err)
		for i := range letters {
			dead = append(dead, letters[i].Position())
		}
	}
	require.Equal(b.t, want, jobs)
	require.Equal(b.t, want, dead)
}

// behind lists what is behind a place, which may be outside of the scope.
func (b *bed) behind(of lister, all []fifo.Position, place fifo.Position) {
	b.t.Helper()
	var want []fifo.Position
	for _, p := range all {
		if cmp.Or(strings.Compare(p.Queue, place.Queue), strings.Compare(p.GroupID, place.GroupID),
			cmp.Compare(p.ID, place.ID)) > 0 {
			want = append(want, p)
		}
	}
	list, err := of.Jobs(b.t.Context(), fifo.Page{After: place})
	require.NoError(b.t, err)
	require.Equal(b.t, want, jobPlaces(list), "%v behind %v", of, place)
}

func TestPagesAreChecked(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	for _, of := range []lister{c, c.Queue("q"), c.Queue("q").Group("g")} {
		for _, key := range []groups.Key{
			{Queue: "q\x00"}, {Queue: "q", GroupID: "\xff"}, {Queue: "q", GroupID: "\x00"},
		} {
			page := fifo.Page{After: fifo.Position{Key: key, ID: 1}}
			_, err := of.Jobs(t.Context(), page)
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", page)
			_, err = of.DeadLetters(t.Context(), fifo.Letters{After: page.After})
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", page)
			_, err = of.Groups(t.Context(), page)
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%+v", page)
		}
	}
}

// What was stored by other means need not be printable, and its place is a place.
func TestPagesOfUnprintableGroups(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) " +
		"SELECT 'q', E'g\n' || i, '' FROM generate_series(1, 150) i")
	for _, of := range []lister{b.client, b.client.Queue("q")} {
		for _, limit := range []int{0, -1, math.MinInt} {
			page := fifo.Page{Limit: limit}
			for _, n := range []int{100, 50, 0} {
				list, err := of.Jobs(t.Context(), page)
				require.NoError(t, err)
				require.Len(t, list, n)
				if n > 0 {
					page.After = list[n-1].Position()
				}
			}
		}
	}
}
