package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/schema"
)

func listed(list []Status) (ids []string) {
	for _, st := range list {
		ids = append(ids, st.Queue+"/"+st.GroupID)
	}
	return ids
}

func (s *stage) list(a Admin, f Filter) []Status {
	s.Helper()
	list, err := a.List(s.Context(), f)
	require.NoError(s, err)
	return list
}

func TestList(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	require.Empty(t, s.list(admin, Filter{}))
	s.enqueue(3, "a", "b", "c", "d")
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('other', 'a', ''), ('other', 'e', '')")
	s.exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour', attempts = 2 " +
		"WHERE group_id = 'b' AND id = 2")
	require.NoError(t, admin.Pause(t.Context(), group("c"), "broken"))
	require.NoError(t, admin.Pause(t.Context(), Key{Queue: "other"}, "all"))
	l := s.lane()
	s.claim(l, "d")

	list := s.list(admin, Filter{})
	require.Equal(t, []string{"other/a", "other/e", "q/a", "q/b", "q/c", "q/d"}, listed(list))
	a, b, c, d := list[2], list[3], list[4], list[5]
	require.Equal(t, Status{Queue: queue, GroupID: "a", HeadID: 1, OldestAt: a.OldestAt, Queued: 3}, a)
	require.WithinDuration(t, time.Now(), a.OldestAt, time.Minute)
	require.Equal(t, group("a"), a.Key())
	require.Equal(t, 2, b.Attempts)
	require.WithinDuration(t, time.Now().Add(time.Hour), b.DueAt, time.Minute)
	require.True(t, c.Paused)
	require.Equal(t, "broken", c.PauseReason)
	require.True(t, list[0].Paused)
	require.Equal(t, "all", list[0].PauseReason)

	require.True(t, d.Held)
	require.Equal(t, int(l.pg().PID()), d.PID)
	require.Equal(t, "lane of TestList", d.ApplicationName)
	require.NotEmpty(t, d.ClientAddr)
	require.WithinDuration(t, time.Now(), d.HeldSince, time.Minute)

	for want, f := range map[string]Filter{
		"q/a q/b q/c q/d":     {Queue: queue},
		"other/a q/a":         {GroupID: "a"},
		"q/a":                 {Queue: queue, GroupID: "a"},
		"":                    {Queue: "none"},
		"q/d":                 {Held: true},
		"other/a other/e q/c": {Paused: true},
		"other/a other/e":     {Limit: 2},
		"q/b q/c q/d":         {After: group("a"), Limit: -1},
		"q/a q/b":             {Limit: 2, After: Key{"other", "e"}},
		"q/c q/d":             {Queue: queue, After: group("b")},
	} {
		require.Equal(t, want, strings.Join(listed(s.list(admin, f)), " "), "%+v", f)
	}
	s.end(l)
	require.Empty(t, s.list(admin, Filter{Held: true}))
}

// Pages are in order and complete, whatever plan the server likes best.
func TestListPages(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	s.crowd(250)
	s.exec("ANALYZE pgfifo.jobs")
	var seen []string
	after := Key{}
	for {
		page := s.list(admin, Filter{After: after})
		if len(page) == 0 {
			break
		}
		require.LessOrEqual(t, len(page), 100)
		seen = append(seen, listed(page)...)
		after = page[len(page)-1].Key()
	}
	require.Equal(t, column[string](s, "SELECT queue || '/' || group_id FROM pgfifo.jobs ORDER BY queue, group_id"),
		seen)
}

func TestListCountsSoMany(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	s.enqueue(MaxCount+1, "a")
	require.Equal(t, MaxCount, s.list(admin, Filter{})[0].Queued)
}

func TestListShowsParkedJobs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	s.enqueue(1, "a", "b")
	s.exec("UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE id = 1")
	list := s.list(admin, Filter{})
	require.Len(t, list, 2)
	require.True(t, list[0].DueAt.After(time.Now()))
}

func TestPausesAndResume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	ctx := t.Context()
	for key, reason := range map[Key]string{{Queue: queue}: "all", group("a"): "", group("é '"): "one ?0"} {
		require.NoError(t, admin.Pause(ctx, key, reason))
	}
	require.NoError(t, admin.Pause(ctx, group("a"), "changed"))
	pauses, err := admin.Pauses(ctx)
	require.NoError(t, err)
	var got []string
	for _, p := range pauses {
		require.WithinDuration(t, time.Now(), p.PausedAt, time.Minute)
		got = append(got, Key{p.Queue, p.GroupID}.String()+" "+p.Reason)
	}
	require.Equal(t, []string{"q/ all", "q/a changed", "q/é ' one ?0"}, got)

	for range 2 {
		require.NoError(t, admin.Resume(ctx, Key{Queue: queue}))
	}
	require.NoError(t, admin.Resume(ctx, group("never paused")))
	pauses, err = admin.Pauses(ctx)
	require.NoError(t, err)
	require.Len(t, pauses, 2, "its groups stay paused")
}

func TestPurgeLeavesTheRunningJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	s.enqueue(3, "a", "b")
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('other', 'a', '')")
	l := s.lane()
	h := s.claim(l, "a")
	n, err := admin.Purge(t.Context(), group("a"))
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	n, err = admin.Purge(t.Context(), Key{Queue: queue})
	require.NoError(t, err)
	require.Equal(t, int64(3), n)
	require.Equal(t, []string{"a", "a/1"}, s.locked())
	s.end(l, succeed(h)...)
	n, err = admin.Purge(t.Context(), Key{Queue: queue})
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, []string{"other"}, column[string](s, "SELECT queue FROM pgfifo.jobs"))
}

func TestAdminInATransaction(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	s.enqueue(2, "a")
	tx, err := admin.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	inTx := Admin{DB: tx}
	require.NoError(t, inTx.Pause(t.Context(), group("a"), "for now"))
	n, err := inTx.Purge(t.Context(), group("a"))
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	require.Empty(t, s.list(inTx, Filter{}))
	require.True(t, s.misses(s.lane(), "a"), "it stands still")
	require.NoError(t, tx.Rollback())
	require.Len(t, s.list(admin, Filter{}), 1)
	pauses, err := admin.Pauses(t.Context())
	require.NoError(t, err)
	require.Empty(t, pauses)
	require.False(t, s.misses(s.lane(), "a"))
}

func TestAdminChecksItsArguments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	admin, _ := s.admin()
	verbs := func(a Admin, key Key) map[string]error {
		_, purge := a.Purge(t.Context(), key)
		return map[string]error{
			"pause": a.Pause(t.Context(), key, ""), "resume": a.Resume(t.Context(), key), "purge": purge,
		}
	}
	for _, key := range []Key{
		{}, {GroupID: "a"}, {"q", "\x00"}, {"q\n", "a"}, {"q", strings.Repeat("x", MaxIDBytes+1)},
	} {
		for verb, err := range verbs(admin, key) {
			require.ErrorIs(t, err, ErrInvalidID, "%s %q", verb, key)
		}
	}
	for _, f := range []Filter{
		{Queue: "q\x00"},
		{Queue: "\xff"},
		{GroupID: "g\x00"},
		{GroupID: strings.Repeat("x", MaxIDBytes+1)},
		{After: Key{Queue: "q\x00"}},
		{After: Key{"q", "\xff"}},
	} {
		_, err := admin.List(t.Context(), f)
		require.ErrorIs(t, err, ErrInvalidID, "%+v", f)
	}
	for _, reason := range []string{"a\x00b", "\xff", strings.Repeat("x", MaxReasonBytes+1)} {
		require.ErrorIs(t, admin.Pause(t.Context(), group("a"), reason), ErrInvalidID, "%q", reason)
	}
	require.NoError(t, admin.Pause(t.Context(), group("a"), strings.Repeat("\n", MaxReasonBytes)))
	for _, none := range []Admin{{}, {DB: (*bun.DB)(nil)}} {
		errs := verbs(none, group("a"))
		_, errs["list"] = none.List(t.Context(), Filter{})
		_, errs["pauses"] = none.Pauses(t.Context())
		_, errs["measure"] = none.Measure(t.Context(), queue)
		for verb, err := range errs {
			require.ErrorContains(t, err, "no DB", verb)
		}
	}
	bad := Admin{DB: admin.DB, Schema: "pg_mine"}
	errs := verbs(bad, group("a"))
	_, errs["list"] = bad.List(t.Context(), Filter{})
	_, errs["pauses"] = bad.Pauses(t.Context())
	for verb, err := range errs {
		require.ErrorIs(t, err, schema.ErrInvalid, verb)
	}
	missing := Admin{DB: admin.DB, Schema: "not there?"}
	errs = verbs(missing, group("a"))
	_, errs["list"] = missing.List(t.Context(), Filter{})
	_, errs["pauses"] = missing.Pauses(t.Context())
	_, errs["measure"] = missing.Measure(t.Context(), queue)
	for verb, err := range errs {
		require.ErrorContains(t, err, "groups: "+verb, verb)
		require.ErrorContains(t, err, "not there", verb)
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(3, "a", "b")
	s.exec("INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at) "+
		"VALUES ($1, 'a', 99, '', 1, now())", queue)
	admin, _ := s.admin()
	d, err := admin.Measure(t.Context(), queue)
	require.NoError(t, err)
	require.Equal(t, []int64{6, 2, 1}, []int64{d.Jobs, d.Groups, d.DeadLetters})
	require.WithinDuration(t, time.Now(), d.OldestAt, time.Hour)
	d, err = admin.Measure(t.Context(), "empty")
	require.NoError(t, err)
	require.Zero(t, d)
	_, err = admin.Measure(t.Context(), "")
	require.ErrorIs(t, err, ErrInvalidID)
}
