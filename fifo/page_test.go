package fifo_test

import (
	"cmp"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func cursors(jobs []fifo.Job) (list []string) {
	for i := range jobs {
		list = append(list, jobs[i].Cursor())
	}
	return list
}

// Every page goes on where the one before ends, in each scope, and wherever the place is.
func TestPages(t *testing.T) {
	b := newBed(t)
	for _, queue := range []string{"p", "q", "r"} {
		b.plant(queue, 3, "a", "b", "é\\' ?")
	}
	b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		SELECT queue, group_id, id, payload, 1, enqueued_at FROM pgfifo.jobs`)
	all := b.jobs()
	require.Len(t, all, 27)
	within := func(queue, id string) (jobs []fifo.Job) {
		for _, p := range all {
			if p.Queue == queue && (id == "" || p.GroupID == id) {
				jobs = append(jobs, p)
			}
		}
		return jobs
	}
	for _, x := range []struct {
		of   lister
		want []fifo.Job
	}{
		{b.client, all},
		{b.client.Queue("p"), within("p", "")},
		{b.q, within("q", "")},
		{b.q.Group("a"), within("q", "a")},
		{b.q.Group("b"), within("q", "b")},
	} {
		for limit := range 5 {
			b.inPages(x.of, x.want, limit)
		}
		for _, place := range append(all, fifo.Job{}) {
			b.behind(x.of, x.want, place)
		}
	}
}

// inPages reads all pages of jobs and of dead letters. They are copies.
func (b *bed) inPages(of lister, want []fifo.Job, limit int) {
	b.t.Helper()
	var jobs, dead []string
	for page := (fifo.Page{Limit: limit}); ; page.After = jobs[len(jobs)-1] {
		list, err := of.Jobs(b.t.Context(), page)
		require.NoError(b.t, err)
		if len(list) == 0 {
			break
		}
		if limit > 0 {
			require.LessOrEqual(b.t, len(list), limit)
		}
		jobs = append(jobs, cursors(list)...)
		dead = append(dead, cursors(b.lettersOf(of, fifo.Letters{After: page.After, Limit: page.Limit}))...)
	}
	require.Equal(b.t, cursors(want), jobs)
	require.Equal(b.t, cursors(want), dead)
}

// behind lists what is behind a place, which may be outside of the scope.
func (b *bed) behind(of lister, all []fifo.Job, place fifo.Job) {
	b.t.Helper()
	var want []fifo.Job
	for _, p := range all {
		if cmp.Or(strings.Compare(p.Queue, place.Queue), strings.Compare(p.GroupID, place.GroupID),
			cmp.Compare(p.ID, place.ID)) > 0 {
			want = append(want, p)
		}
	}
	page := fifo.Page{}
	if place.Queue != "" {
		page.After = place.Cursor()
	}
	list, err := of.Jobs(b.t.Context(), page)
	require.NoError(b.t, err)
	require.Equal(b.t, cursors(want), cursors(list), "%v behind %v", of, place)
}

func TestPagesAreChecked(t *testing.T) {
	t.Parallel()
	c, good := nowhere(t), (&fifo.Job{Queue: "jq", GroupID: "g/é\\' ?", ID: 1}).Cursor()
	require.Equal(t, good, url.QueryEscape(good))
	for _, of := range []lister{c, c.Queue("q"), c.Queue("q").Group("g")} {
		for _, after := range []string{
			(&fifo.Job{Queue: "q\x00", GroupID: "g"}).Cursor(), (&fifo.Job{Queue: "q", GroupID: "\xff"}).Cursor(),
			(&fifo.Job{Queue: "q", GroupID: "\x00"}).Cursor(),
			good + "0x", good + " ", " " + good, strings.ToUpper(good), good[1:],
			"q/g/1", "71.67", "7.67.1", "..1", ".",
		} {
			page := fifo.Page{After: after}
			letters := fifo.Letters{After: after}
			require.ErrorIs(t, second(of.Jobs(t.Context(), page)), fifo.ErrInvalidID, after)
			require.ErrorIs(t, second(of.DeadLetters(t.Context(), letters)), fifo.ErrInvalidID, after)
			require.ErrorIs(t, second(of.Groups(t.Context(), page)), fifo.ErrInvalidID, after)
		}
	}
}

// What was stored by other means need not be printable, and its place is a place.
func TestPagesOfUnprintableGroups(t *testing.T) {
	b := newBed(t)
	b.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) " +
		"SELECT 'q', E'g\n' || i, '' FROM generate_series(1, 150) i")
	for _, of := range []lister{b.client, b.q} {
		for _, limit := range []int{0, -1, math.MinInt} {
			page := fifo.Page{Limit: limit}
			for _, n := range []int{100, 50, 0} {
				list, err := of.Jobs(t.Context(), page)
				require.NoError(t, err)
				require.Len(t, list, n)
				if n > 0 {
					page.After = list[n-1].Cursor()
				}
			}
		}
	}
}
