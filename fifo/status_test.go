package fifo_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A lister is a Client or a Scope.
type lister interface {
	Groups(ctx context.Context, page fifo.Page, states ...fifo.State) ([]fifo.Status, error)
	Jobs(ctx context.Context, page fifo.Page) ([]fifo.Job, error)
	DeadLetters(ctx context.Context, of fifo.Letters) ([]fifo.Job, error)
}

func (b *bed) groups(of lister, page fifo.Page, states ...fifo.State) []fifo.Status {
	b.t.Helper()
	list, err := of.Groups(b.t.Context(), page, states...)
	require.NoError(b.t, err)
	return list
}

// plant adds n jobs to each of the groups of a queue. They are not audited.
func (b *bed) plant(queue string, n int, ids ...string) {
	b.t.Helper()
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, g, '' FROM unnest($2::text[]) g, generate_series(1, $3::integer)`, queue, ids, n)
}

// after is behind all of a group.
func after(queue, id string) fifo.Page {
	return fifo.Page{After: (&fifo.Job{Queue: queue, GroupID: id}).Cursor()}
}

func keysOf(list []fifo.Status) string {
	keys := make([]string, len(list))
	for i := range list {
		keys[i] = list[i].Group().String()
	}
	return strings.Join(keys, " ")
}

func TestGroups(t *testing.T) {
	b := newBed(t)
	require.Empty(t, b.groups(b.client, fifo.Page{}))
	b.plant("q", 3, "d")
	h := newBlocking()
	b.run(b.worker(h.handle, oneLane, func(w *fifo.Worker) { w.Name = "worker of TestGroups" }))
	receive(t, h.started, "the head of d")
	b.plant("q", 3, "a", "b", "c")
	b.plant("other", 1, "a", "e")
	b.exec(`UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour', attempts = 2
		WHERE id = (SELECT min(id) FROM pgfifo.jobs WHERE queue = 'q' AND group_id = 'b')`)
	require.NoError(t, pausing(b.q.Group("c").Pause(t.Context(), "broken")))
	require.NoError(t, pausing(b.client.Queue("other").Pause(t.Context(), "all")))

	list := b.groups(b.client, fifo.Page{})
	require.Equal(t, "other/a other/e q/a q/b q/c q/d", keysOf(list))
	x, y, c, d := list[2], list[3], list[4], list[5]
	head := query[int64](b, "SELECT min(id) FROM pgfifo.jobs WHERE queue = 'q' AND group_id = 'a'")
	require.Equal(t, fifo.Status{
		Queue: "q", GroupID: "a", HeadID: head, OldestAt: x.OldestAt, Queued: 3,
		JobID: head, State: fifo.Due, Since: x.OldestAt,
	}, x)
	require.WithinDuration(t, time.Now(), x.OldestAt, time.Minute)
	require.Equal(t, (&fifo.Job{Queue: "q", GroupID: "a", ID: head}).Cursor(), x.Cursor())
	require.Equal(t, 2, y.Attempts)
	require.WithinDuration(t, time.Now().Add(time.Hour), y.DueAt, time.Minute)
	require.True(t, c.Paused)
	require.Equal(t, "broken", c.PauseReason)
	require.True(t, list[0].Paused)
	require.Equal(t, "all", list[0].PauseReason)

	require.True(t, d.Held)
	state := query[string](b, "SELECT state FROM pg_stat_activity WHERE pid = $1", d.PID)
	require.Equal(t, "idle in transaction", state)
	require.Equal(t, "worker of TestGroups", d.ApplicationName)
	require.NotEmpty(t, d.ClientAddr)
	require.WithinDuration(t, time.Now(), d.HeldSince, time.Minute)
	b.listed()
	close(h.release)
	await(t, "the end of d", func() bool { return len(b.groups(b.q.Group("d"), fifo.Page{})) == 0 })
}

// listed looks at the groups of TestGroups in many ways.
func (b *bed) listed() {
	b.t.Helper()
	for _, x := range []struct {
		want   string
		of     lister
		page   fifo.Page
		states []fifo.State
	}{
		{want: "q/a q/b q/c q/d", of: b.q},
		{want: "q/a", of: b.q.Group("a")},
		{of: b.client.Queue("none")},
		{of: b.q.Group("aa")},
		{want: "q/d", of: b.client, states: []fifo.State{fifo.Held}},
		{want: "q/d", of: b.q.Group("d"), states: []fifo.State{fifo.Held}},
		{of: b.q.Group("a"), states: []fifo.State{fifo.Held}},
		{want: "other/a other/e q/c", of: b.client, states: []fifo.State{fifo.Paused}},
		{of: b.client, states: []fifo.State{fifo.Paused, fifo.Held}},
		{want: "other/a other/e", of: b.client, page: fifo.Page{Limit: 2}},
		{want: "q/b q/c q/d", of: b.client, page: fifo.Page{After: after("q", "a").After, Limit: -1}},
		{want: "q/a q/b", of: b.client, page: fifo.Page{After: after("other", "e").After, Limit: 2}},
		{want: "q/c q/d", of: b.q, page: after("q", "b")},
		{want: "q/a q/b q/c q/d", of: b.q, page: after("other", "x")}, // before the queue
		{of: b.client.Queue("other"), page: after("q", "a")},          // behind it
		{want: "q/b", of: b.q.Group("b"), page: after("q", "a")},
		{of: b.q.Group("b"), page: after("q", "b")},
	} {
		require.Equal(b.t, x.want, keysOf(b.groups(x.of, x.page, x.states...)), "%+v", x)
	}
}

// Pages are in order and complete, whatever plan the server likes best.
func TestGroupsInPages(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT q, i::text, '' FROM unnest('{q,r}'::text[]) q, generate_series(1, 250) i, generate_series(1, 2)`)
	b.exec("ANALYZE pgfifo.jobs")
	for queue, of := range map[string]lister{"": b.client, "q": b.q, "r": b.client.Queue("r")} {
		var seen []string
		for page := (fifo.Page{}); ; {
			list := b.groups(of, page)
			if len(list) == 0 {
				break
			}
			require.LessOrEqual(t, len(list), 100)
			seen = append(seen, keysOf(list))
			page.After = list[len(list)-1].Cursor()
		}
		require.Equal(t, query[string](b, `SELECT string_agg(queue || '/' || group_id, ' ' ORDER BY queue, group_id)
			FROM (SELECT DISTINCT queue, group_id FROM pgfifo.jobs WHERE $1 IN ('', queue)) g`, queue),
			strings.Join(seen, " "))
	}
}

func TestGroupsCountSoMany(t *testing.T) {
	b := newBed(t)
	b.plant("q", fifo.MaxQueued+1, "a")
	require.Equal(t, fifo.MaxQueued, b.groups(b.client, fifo.Page{})[0].Queued)
}

// Go has no time that is infinite.
func TestParkedJobsAreListed(t *testing.T) {
	b := newBed(t)
	b.plant("q", 1, "a", "b")
	b.exec("UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE group_id = 'a'")
	list := b.groups(b.client, fifo.Page{})
	require.Len(t, list, 2)
	require.True(t, list[0].DueAt.After(time.Now()))
	require.Zero(t, list[1].DueAt)
	jobs := b.jobs()
	require.Len(t, jobs, 2)
	require.True(t, jobs[0].RunAt.After(time.Now()))
	require.Zero(t, jobs[1].RunAt)
}

func TestInvalidStates(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	for _, state := range []fifo.State{0, -1, 3} {
		require.ErrorIs(t, second(c.Groups(t.Context(), fifo.Page{}, fifo.Held, state)), fifo.ErrInvalidState)
		require.ErrorIs(t, second(c.Queue("q").Groups(t.Context(), fifo.Page{}, state)), fifo.ErrInvalidState)
	}
}

// Up to a bound it counts all, and beyond it says that there are more; and it finds the oldest there, too.
func TestMeasureUpTo(t *testing.T) {
	b := newBed(t)
	b.plant("q", 3, "b", "a")
	b.plant("other", 1, "a")
	b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		VALUES ('q', 'a', 99, '', 1, now()), ('q', 'c', 98, '', 1, now()), ('other', 'a', 97, '', 1, now())`)
	b.exec("UPDATE pgfifo.jobs SET enqueued_at = now() - interval '1 day' * (10 - id), run_at = CASE id WHEN 1 THEN " +
		"now() + interval '1 day' END")
	ago := func(days int) time.Time { return time.Now().Add(time.Duration(days) * -24 * time.Hour) }
	for _, x := range []struct {
		of          fifo.Scope
		n           int
		want        [3]int
		more        bool
		oldest, due int // days ago
	}{
		{b.q, 0, [3]int{6, 2, 2}, false, 9, 8},
		{b.q.Group("a"), 0, [3]int{3, 1, 1}, false, 6, 6},
		{b.q.Group("b"), 0, [3]int{3, 1, 0}, false, 9, 8},
		{b.q.Group("c"), 0, [3]int{0, 0, 1}, false, 0, 0},
		{b.client.Queue("empty"), 0, [3]int{}, false, 0, 0},
		{b.q, 6, [3]int{6, 2, 2}, false, 9, 8},
		{b.q, math.MaxInt, [3]int{6, 2, 2}, false, 9, 8},
		{b.q, 5, [3]int{5, 2, 2}, true, 9, 8},
		{b.q, 2, [3]int{2, 1, 2}, true, 9, 8},
		{b.q, 1, [3]int{1, 1, 1}, true, 9, 6},
		{b.q.Group("a"), 3, [3]int{3, 1, 1}, false, 6, 6},
		{b.q.Group("a"), 2, [3]int{2, 1, 1}, true, 6, 6},
		{b.q.Group("c"), 1, [3]int{0, 0, 1}, false, 0, 0},
		{b.client.Queue("empty"), 1, [3]int{}, false, 0, 0},
	} {
		d, err := x.of.MeasureUpTo(t.Context(), x.n)
		require.NoError(t, err)
		if x.n == 0 {
			all, err := x.of.Measure(t.Context())
			require.NoError(t, err)
			require.Equal(t, d, all)
		}
		require.Equal(t, x.want, [3]int{d.Jobs, d.Groups, d.DeadLetters}, "%v, %d", x.of, x.n)
		require.Equal(t, x.more, d.More)
		for days, at := range map[int]time.Time{x.oldest: d.OldestAt, x.due: d.DueSince} {
			if days == 0 {
				require.Zero(t, at)
			} else {
				require.WithinDuration(t, ago(days), at, time.Hour, "%v, %d", x.of, x.n)
			}
		}
	}
}

// What is delayed is not due, however long ago it was enqueued; what was delayed is, since its time has come.
func TestDueSince(t *testing.T) {
	b := newBed(t)
	for _, x := range []struct {
		add   string
		hours time.Duration // ago
	}{
		{"now() - interval '9 hours', now() + interval '1 hour'", 0},
		{"now() - interval '8 hours', now() - interval '2 hours'", 2},
		{"now() - interval '3 hours', NULL", 3},
	} {
		b.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload, enqueued_at, run_at) SELECT 'q', 'g', '', " + x.add)
		d, err := b.q.Measure(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(-9*time.Hour), d.OldestAt, time.Minute)
		if x.hours == 0 {
			require.Zero(t, d.DueSince)
		} else {
			require.WithinDuration(t, time.Now().Add(-x.hours*time.Hour), d.DueSince, time.Minute)
		}
	}
}
