package groups

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// finishAll finishes the jobs of a group one by one, and leaves it without any as far as the Turns know.
func finishAll(turns *Turns, id string, jobs ...int64) {
	turns.Announce(group(id), jobs[0])
	turn := turns.TryNext()
	for i, job := range jobs {
		trust(turns)
		turns.Done(turn, Outcome{Finished: job, More: i < len(jobs)-1})
		if i < len(jobs)-1 {
			turn = turns.TryNext()
		}
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	turns := roomyTurns()
	require.Nil(t, turns.gaps(queue, 0), "nobody has looked yet")
	turns.Walked(true)
	require.Nil(t, turns.gaps(queue, 0), "a walk over all does it")
	turns.Offer([]Candidate{{Key: Key{"other", "x"}, ID: 1, DueIn: time.Hour}})
	require.Equal(t, []gap{{before: "\x01"}, {id: math.MaxInt64}}, turns.gaps(queue, 0))

	finishAll(turns, "idle", 1, 2, 3, 4)
	finishAll(turns, "new", 5) // no floor yet
	turns.Offer([]Candidate{
		{Key: group("lane"), ID: 10},
		{Key: group("line"), ID: 11},
		{Key: Key{"other", "line"}, ID: 12},
		{Key: group("due"), ID: 13, DueIn: time.Hour},
		{Key: group("held"), ID: 14, Holder: 7},
	})
	for turn := turns.TryNext(); turn.GroupID != "lane"; turn = turns.TryNext() {
		turns.put(turn)
	}
	require.Equal(t, withLane, turns.known[group("lane")].state)
	floor := turns.floors.get(group("idle"))
	require.Equal(t, int64(1), floor.id)
	want := []gap{
		{"", 0, "idle"},
		{"idle", 1, "lane"},
		{"lane", math.MaxInt64, "line"},
		{"line", math.MaxInt64, "line\x01"},
		{"line", math.MaxInt64, ""},
	}
	require.Equal(t, want, turns.gaps(queue, 0))

	turns.floors.marks[group("due")] = mark{floor: floor}
	turns.floors.marks[group("lane")] = mark{floor: floor}
	want = slices.Insert(want, 1, gap{"due", 1, "idle"})
	want[0].before = "due"
	require.Equal(t, want, turns.gaps(queue, floor.learned))

	got := turns.gaps(queue, floor.learned+1)
	require.Len(t, got, 4, "floors are not for a connection that is newer")
	require.Equal(t, gap{"", 0, "lane"}, got[0])

	turns.Walked(false)
	require.Nil(t, turns.gaps(queue, 0), "there are others outside the line")
}

// quickly makes a whole quick walk, and returns the groups that it put in line.
func (s *stage) quickly(turns *Turns, scout *Scout) []string {
	s.Helper()
	before := len(turns.line.rest.items)
	conn := s.session().Conn
	for more := true; more; more = scout.quick.midway() {
		require.NoError(s, scout.walkQuickly(s.Context(), conn, 3))
	}
	require.True(s, scout.quick.walks)
	var found []string
	for _, turn := range turns.line.rest.items[before:] {
		found = append(found, turn.GroupID)
	}
	slices.Sort(found)
	return found
}

func TestQuickWalkLooksBetweenGroups(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	turns, scout := s.scout(time.Hour, "empty", queue)
	turns.Walked(true)
	turns.Offer([]Candidate{{Key: Key{"empty", "x"}, ID: 1}})
	require.Empty(t, s.quickly(turns, scout))

	const n = 2*walkBatch + 3
	s.crowd(n)
	require.Len(t, s.quickly(turns, scout), n, "nothing is known yet")
	require.Empty(t, s.quickly(turns, scout), "all is known")
	s.enqueue(3, "a", "g00000", "g00001", "g00001x", "g00001y", "g00512x", "g01027", "g01027\x01", "z")
	require.Equal(t, []string{"a", "g00000", "g00001x", "g00001y", "g00512x", "g01027\x01", "z"}, s.quickly(turns, scout))
	require.Empty(t, s.quickly(turns, scout))
}

// Of a group that is idle as far as is known, jobs behind its floor are found, and nothing else is read.
func TestQuickWalkLooksBehindFloors(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "z"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			turns, scout := s.scout(time.Hour)
			turns.Walked(true)
			finishAll(turns, id, 1, 2, 3, 4)
			s.enqueue(1, id) // put back, with id 1
			turns.Offer([]Candidate{{Key: group("m"), ID: 9}})
			require.Empty(t, s.quickly(turns, scout), "walks over all groups are for those")
			s.exec("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ($1, $2, 3, '')", queue, id)
			require.Equal(t, []string{id}, s.quickly(turns, scout))
			require.Equal(t, int64(3), turns.known[group(id)].head)

			require.NoError(t, scout.Walk(t.Context(), s.session().Conn))
			require.Zero(t, turns.floors.get(group(id)))
		})
	}
}

// Where walks over all groups are slow, quick ones find in time what nobody announces, also while the lanes are busy.
func TestQuickWalksInBetween(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.crowd(50)
	turns, scout := s.scout(time.Second)
	conn := s.session().Conn
	require.NoError(t, scout.Walk(t.Context(), conn))
	scout.took, scout.whole, scout.quick.walks = time.Minute, time.Minute, true
	scout.walked = time.Now()
	view := turns.Look()
	require.Greater(t, scout.nextWalk(view), 10*time.Minute)
	require.LessOrEqual(t, scout.nextQuick(view), time.Duration(0))
	s.enqueue(1, "late")
	s.until(func() bool {
		_, err := scout.step(t.Context(), conn)
		require.NoError(t, err)
		turn := turns.TryNext()
		require.NotNil(t, turn, "no lane ever waits")
		defer turns.Done(turn, Outcome{Finished: 1, More: true})
		return turn.GroupID == "late"
	})
}

// Who hurries while a quick walk is under way gets another one, because the first may have passed by already.
func TestHurryDuringAQuickWalk(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	turns, scout := s.scout(time.Hour)
	turns.Walked(true)
	turns.Offer(ready("m"))
	scout.whole, scout.quick.walks = time.Minute, true
	require.NoError(t, scout.walkQuickly(t.Context(), s.session().Conn, walkBatch))
	require.True(t, scout.quick.midway())
	s.enqueue(1, "a")
	scout.hurried = true
	require.Empty(t, s.quickly(turns, scout)) // the rest of it
	view := turns.Look()
	view.Idle = true
	require.LessOrEqual(t, scout.nextQuick(view), time.Duration(0))
	require.Equal(t, []string{"a"}, s.quickly(turns, scout))
	scout.gap = time.Hour
	require.Positive(t, scout.nextQuick(view))
}

// Walks that somebody asks for all the time leave busy lanes most of the server.
func TestHurriedWalks(t *testing.T) {
	t.Parallel()
	turns, scout := newStage(t).scout(time.Hour)
	turns.Walked(true)
	scout.gap, scout.took, scout.whole, scout.quick.took = time.Hour, time.Minute, time.Minute, time.Second
	scout.walked, scout.quick.ended = time.Now(), time.Now()
	for quick, took := range map[bool]time.Duration{true: time.Second, false: time.Minute} {
		scout.quick.walks = quick
		next := scout.nextWalk
		if quick {
			next = scout.nextQuick
		}
		scout.hurried = false
		busy, idle := turns.Look(), turns.Look()
		idle.Idle = true
		require.Greater(t, next(idle), took)
		scout.hurried = true
		require.LessOrEqual(t, next(idle), time.Duration(0))
		require.Greater(t, next(busy), took/2)
		require.LessOrEqual(t, next(busy), took)
	}
}

// While there are too many groups for a quick walk it is not tried all the time.
func TestNoQuickWalk(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	turns, scout := s.scout(time.Hour)
	scout.whole, scout.quick.walks, scout.gap = time.Minute, true, 0
	turns.Walked(true)
	view := turns.Look()
	require.LessOrEqual(t, scout.nextQuick(view), time.Duration(0))
	turns.Walked(false)
	scout.hurried = true
	require.NoError(t, scout.walkQuickly(t.Context(), s.session().Conn, walkBatch))
	require.False(t, scout.quick.walks)
	require.True(t, scout.hurried, "a walk over all is to do it")
	view.Idle = true
	require.Positive(t, scout.nextQuick(view))
}

// A walk over all groups has looked under their floors. They stay in force until the next one may be expected.
func TestWalkChecksFloors(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.crowd(10)
	turns, scout := s.scout(time.Hour)
	f := &turns.floors
	f.born = time.Time{}
	begin := time.Now()
	require.NoError(t, scout.Walk(t.Context(), s.session().Conn))
	require.False(t, f.born.Before(begin))
	require.Equal(t, floorAge, f.keep)
	s.exec("DELETE FROM pgfifo.jobs")
	scout.took, scout.began, scout.after = time.Minute, begin, "z" // a slow one ends
	require.NoError(t, scout.walk(t.Context(), s.session().Conn, walkBatch))
	require.Greater(t, f.keep, 4*time.Minute)
}
