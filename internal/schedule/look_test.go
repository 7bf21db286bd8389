package schedule

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// looking returns a scout that looks, and its connection.
func (s *stage) looking(poll time.Duration, queues ...string) (*Turns, *Scout, *pgx.Conn) {
	s.Helper()
	turns, scout := s.scout(poll, queues...)
	conn := s.Session().Conn
	s.look(scout, conn)
	return turns, scout, conn
}

// look makes the scout look, as if walks took hours: it makes none any more.
func (s *stage) look(scout *Scout, conn *pgx.Conn) {
	s.Helper()
	scout.look.on = true
	for more := true; more; more = scout.look.pass != nil {
		require.NoError(s, scout.lookOn(s.Context(), conn, scout.Turns.View()))
	}
	require.NoError(s, scout.Walk(s.Context(), conn))
	scout.whole = 24 * time.Hour
	for i := range scout.walks {
		scout.walks[i].cost = 24 * time.Hour
	}
	require.True(s, scout.covers())
}

// found is one whole look, and returns the groups in line then.
func (s *stage) found(scout *Scout, conn *pgx.Conn) []string {
	s.Helper()
	for more := true; more; more = scout.look.pass != nil {
		require.NoError(s, scout.lookOn(s.Context(), conn, scout.Turns.View()))
	}
	scout.Turns.Due()
	return drained(scout.Turns)
}

// A pause that begins and ends between two looks leaves no trace but the claim that met it.
func TestPauseBetweenLooks(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a")
	turns, scout, conn := s.looking(time.Second, queue)
	turn, l := turns.TryNext(), s.lane()
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ('q', 'a')")
	hold := s.step(l, nil, turn.Request())
	require.True(t, hold.Paused)
	s.end(l)
	turns.Done(turn, Outcome{Paused: true, Seen: hold.Seen})
	s.Exec("DELETE FROM pgfifo.pauses")
	scout.view()
	require.False(t, scout.covers(), "a walk is to be made soon")
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a"}, drained(turns))
}

// So it does while the walk over another queue is under way, which may rest for minutes.
func TestPauseBesideAPacedWalk(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	turns, scout, conn := s.looking(time.Second, "r", queue)
	turn := turns.TryNext()
	scout.walks[0].midway, scout.walks[0].paced = true, true
	turns.Done(turn, Outcome{Paused: true})
	view := scout.view()
	n, wait := scout.chooseWalk(view)
	require.Less(t, wait, scout.Poll, "it is walked soon, and not by the next poll")
	slow := rhythm{cost: time.Hour}
	scout.walks[0].rhythm = slow
	require.NoError(t, scout.walkQueue(t.Context(), conn, view, n))
	require.Equal(t, []string{"a"}, drained(turns))
	require.Equal(t, slow, scout.walks[0].rhythm, "the other keeps its pace")
}

func TestLooksFindWhatIsNew(t *testing.T) {
	s := newStage(t)
	_, scout, conn := s.looking(time.Second, queue, "r")
	require.Empty(t, s.found(scout, conn))
	s.Crowd(3)
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('r', 'z', ''), ('not mine', 'a', '')")
	require.ElementsMatch(t, []string{"g00001", "g00002", "g00003", "z"}, s.found(scout, conn))
	require.Equal(t, 4, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.queue_groups"), "their rows are made")
	require.Empty(t, s.found(scout, conn), "a lane has them")
	s.Crowd(newBatch + 7)
	require.Len(t, s.found(scout, conn), newBatch+4)
	require.False(t, scout.walks[0].needed)
}

// A job whose transaction drew its id long before others that were found is found when it commits, in one look.
func TestLooksFindLateCommits(t *testing.T) {
	pgtest.OverAll(t, map[string]int{"at once": 0, "after a look": 1, "after many": 5}, func(t *testing.T, looks int) {
		s := newStage(t)
		turns, scout, conn := s.looking(time.Second)
		tx := s.Session()
		tx.Do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) " +
			"VALUES ('q', 'late', ''), ('q', 'known', '')")
		for i := range looks {
			s.Enqueue(1, fmt.Sprint("other", i))
			require.Len(t, s.found(scout, conn), 1)
		}
		s.Enqueue(1, "known")
		require.Len(t, s.found(scout, conn), 1)
		known := turns.known[group("known")]
		require.Greater(t, known.lowest, known.head)
		tx.Do("COMMIT")
		require.Equal(t, []string{"late"}, s.found(scout, conn))
		require.Less(t, known.lowest, known.head, "no floor is raised over it")
	})
}

// Who was writing before the first look may have drawn any id: only a walk finds what they bring.
func TestWritersBeforeTheFirstLook(t *testing.T) {
	s := newStage(t)
	tx := s.Session()
	tx.Do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'late', '')")
	s.Enqueue(1, "a")
	turns, scout, conn := s.looking(time.Second)
	require.Equal(t, []string{"a"}, s.found(scout, conn))
	require.True(t, scout.covers())
	tx.Do("COMMIT")
	require.Empty(t, s.found(scout, conn))
	require.False(t, scout.covers())
	scout.walks[0].walked = time.Time{}
	require.LessOrEqual(t, scout.nextWalk(turns.View()), time.Duration(0))
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"late"}, drained(turns))
}

// Many new jobs are for a walk, which costs as much as there are groups.
func TestLooksLeaveManyJobsToAWalk(t *testing.T) {
	s := newStage(t)
	_, scout, conn := s.looking(time.Second)
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', $1::bigint)", maxNew+10)
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	require.False(t, scout.covers())
}

func TestLooksFindWhatIsDue(t *testing.T) {
	s := newStage(t)
	const n = tuning.Rows + 11
	s.Crowd(n)
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour'")
	conn := s.Session().Conn
	turns, scout := s.scout(time.Second)
	turns.parked.most = 16
	s.look(scout, conn)
	require.Equal(t, 8, turns.parked.heap.Len())
	require.Empty(t, s.found(scout, conn))

	// Failed elsewhere, with the same id: it is parked when it is due soon.
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '2.5 s' WHERE id = $1", n)
	require.Empty(t, s.found(scout, conn))
	require.Equal(t, fmt.Sprintf("g%05d", n), turns.parked.heap[0].GroupID)
	require.InDelta(t, 2.5, turns.Due().Seconds(), 2)

	// Due, but not a head: its group's head holds it.
	s.Enqueue(1, "g00007")
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() WHERE id = $1", n+1)
	require.Empty(t, s.found(scout, conn))

	// Many at once, with the same time.
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() WHERE id < $1", n)
	require.Len(t, s.found(scout, conn), n-1)
	turns.unlink(turns.known[fmtKey(n)])
	require.False(t, scout.walks[0].needed)
}

func fmtKey(n int) groups.Key { return group(fmt.Sprintf("g%05d", n)) }

// A redrive that nobody announces is found, also below the group's floor, and also if it commits late.
func TestLooksFindRedrivenJobs(t *testing.T) {
	s := newStage(t)
	s.Exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		VALUES ('q', 'a', 1, '', 1, now()), ('q', 'b', 2, '', 1, now())`)
	turns, scout, conn := s.looking(time.Second)
	finishAll(turns, "a", 3, 4, 5, 6)
	require.Positive(t, turns.floors.of(group("a")).floor.id)
	tx := s.Session()
	tx.Do("BEGIN")
	tx.Do(s.Statement("redrive"), queue, nil, "", math.MinInt64, nil, "", "", 0, false, false, nil, nil)
	scout.look.known.id = 100 // their ids are not new
	for range 3 {
		require.Empty(t, s.found(scout, conn))
	}
	for w, p := range scout.look.writers { // as if it had taken minutes
		p.at = p.at.Add(-time.Minute)
		scout.look.writers[w] = p
	}
	s.Exec("SELECT 1")
	tx.Do("UPDATE pgfifo.jobs SET run_at = run_at - interval '1 minute'")
	scout.look.known.at = scout.look.known.at.Add(slack)
	tx.Do("COMMIT")
	require.ElementsMatch(t, []string{"a", "b"}, s.found(scout, conn))
	require.Zero(t, turns.floors.of(group("a")).floor.id)
}

// What Resume has freed is found by the next walk, which is made at once.
func TestLooksSeePauses(t *testing.T) {
	s := newStage(t)
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ('q', 'a')")
	s.Enqueue(1, "a")
	turns, scout, conn := s.looking(time.Second)
	require.Empty(t, s.found(scout, conn))
	require.True(t, scout.covers())
	s.Exec("DELETE FROM pgfifo.pauses")
	require.Empty(t, s.found(scout, conn))
	scout.walks[0].walked = time.Time{}
	require.LessOrEqual(t, scout.nextWalk(turns.View()), time.Duration(0))
}

// While walks are slow, looks are made all the same, also while all lanes are busy or somebody hurries.
func TestNextLook(t *testing.T) {
	s := newStage(t)
	conn := s.Session().Conn
	turns, scout := s.scout(time.Minute)
	require.Equal(t, tuning.Wait, scout.nextLook(turns.View()), "walks are quick")
	s.look(scout, conn)
	s.found(scout, conn)
	busy, idle := turns.View(), turns.View()
	idle.Idle = true
	l := &scout.look
	l.took, scout.gap = time.Second, minGap
	require.Greater(t, scout.nextLook(idle), 15*time.Second)
	require.Greater(t, scout.nextLook(busy), 25*time.Second)
	scout.press()
	require.LessOrEqual(t, scout.nextLook(idle), time.Duration(0))
	require.LessOrEqual(t, scout.nextLook(busy), time.Second)
	l.owed = time.Now() // there is room again for what was not read, and that is no reason to look later
	require.LessOrEqual(t, scout.nextLook(idle), time.Duration(0))
	require.LessOrEqual(t, scout.nextLook(busy), time.Second)
	l.pressed, l.took, l.cost = false, 4*time.Second, 4*time.Second
	for _, view := range []View{idle, busy} {
		require.LessOrEqual(t, scout.nextLook(view), scout.Poll)
	}
	l.cost = 10 * time.Millisecond
	for _, view := range []View{idle, busy} {
		require.LessOrEqual(t, scout.nextLook(view), 20*l.cost)
	}
	l.pass, l.cost = &pass{}, time.Minute
	require.LessOrEqual(t, scout.nextLook(idle), time.Duration(0))
	require.Greater(t, scout.nextLook(busy), 2*time.Minute)
	busy.Room = 0
	require.Equal(t, tuning.Wait, scout.nextLook(busy))
	scout.whole = 0
	scout.choose()
	require.False(t, l.on)
}

// While there is no room for more jobs that are due soon, looks go on to find new ones. The others are read when there
// is room again, from where they were left.
func TestLooksBesideACrowd(t *testing.T) {
	s := newStage(t)
	conn := s.Session().Conn
	turns, scout := s.scout(time.Second, queue)
	turns.parked.most = 8
	s.look(scout, conn)
	ids := []string{"1", "2", "3", "4", "5", "6"}
	for i, c := range ready(ids...) {
		c.ID, c.DueIn = int64(1_000_000+i), time.Second
		turns.Offer([]Candidate{c})
	}
	require.True(t, turns.View().Crowded)
	s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
		VALUES ('q', 'due', '', now() + '1500 milliseconds'), ('q', 'new', '', NULL)`)
	require.Equal(t, []string{"new"}, s.found(scout, conn))
	for _, id := range ids {
		turn := turns.known[group(id)]
		turns.unlink(turn)
		delete(turns.known, turn.Key)
	}
	delete(turns.known, group("due"))
	require.Empty(t, s.found(scout, conn))
	require.NotNil(t, turns.known[group("due")])
}

func TestPointsOfWriters(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := progress{id: 7, at: now}
	require.Equal(t, p, p.lower(progress{id: math.MaxInt64, at: now.Add(1)}))
	require.Equal(t, progress{id: 3, at: now}, p.lower(progress{id: 3, at: now}))
	require.Equal(t, progress{id: 7, at: now.Add(-1)}, p.lower(progress{id: 8, at: now.Add(-1)}))
}

// Tens of thousands of groups that are not due: each of them is started in time, although few are kept in memory, and
// an idle worker does not read the others again and again.
func TestManyDelayedGroups(t *testing.T) {
	t.Parallel()
	s := &stage{pgtest.At(t, pgtest.URL(t))} // nothing was read in it
	const n, due = 30_000, 200
	s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
		SELECT 'q', 'g' || i, '', statement_timestamp() + interval '1 hour' FROM generate_series(1, $1::integer) i`, n)
	const poll = 200 * time.Millisecond
	turns, scout := s.scout(poll)
	turns.parked.most = 2 * due
	s.run(scout)
	read := func() int64 {
		return pgtest.One[int64](s.DB, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_pkey'")
	}
	s.Until(func() bool { return read() >= n })
	before, began := read(), time.Now()

	late := func() {
		t.Helper()
		for n := 0; n < due; n++ {
			turn := s.next(turns)
			overs := pgtest.Column[float64](s.DB, `
				SELECT extract(epoch FROM clock_timestamp() - run_at) FROM pgfifo.jobs
				WHERE queue = 'q' AND group_id = $1`, turn.GroupID)
			if len(overs) == 0 { // a look that began before it was done
				turns.Done(turn, Outcome{Missed: true})
				n--
				continue
			}
			require.Greater(t, overs[0], -0.1, turn.GroupID)
			require.Less(t, overs[0], 15.0, turn.GroupID)
			s.Exec("DELETE FROM pgfifo.jobs WHERE queue = 'q' AND group_id = $1", turn.GroupID)
			turns.Done(turn, Outcome{Finished: math.MaxInt64})
		}
	}
	// Retried, by somebody who has died since.
	s.Exec(`UPDATE pgfifo.jobs SET run_at = statement_timestamp() + (3 + (id - $1) / 200.0) * interval '1 s'
		WHERE id > $1`, n-due)
	late()
	// New, and not announced.
	s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
		SELECT 'q', 'new' || i, '', statement_timestamp() + (1 + i / 200.0) * interval '1 s'
		FROM generate_series(1, $1::integer) i`, due)
	late()
	took := time.Since(began)
	require.Greater(t, took, 3*time.Second)
	require.Less(t, read()-before, n*int64(took/poll)/4, "it goes through all of them with each poll")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Nil(t, turns.Next(ctx))
}

// A job that is enqueued while a lane has its group, unannounced, is worked when the lane is done, although the lane's
// claim was before it: no look reads its id a second time.
func TestLooksFindWhatComesWhileALaneHasTheGroup(t *testing.T) {
	s := newStage(t)
	turns, scout, conn := s.looking(time.Second)
	first := s.Enqueue(1, "a")[0]
	require.Equal(t, []string{"a"}, s.found(scout, conn))
	turn := turns.known[group("a")]
	h := s.step(s.lane(), nil, turn.Request())
	require.False(t, h.More)
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	turns.Done(turn, Outcome{Finished: first})
	require.Equal(t, []string{"a"}, append(drained(turns), s.found(scout, conn)...))
}

// A sequence that is set back draws ids that were drawn before, below those that are known: only a walk finds those
// jobs.
func TestLooksSeeASequenceSetBack(t *testing.T) {
	s := newStage(t)
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', 1000)")
	turns, scout, conn := s.looking(time.Second)
	require.Empty(t, s.found(scout, conn))
	require.True(t, scout.covers())
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', 1)")
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	require.False(t, scout.covers())
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a"}, drained(turns))
}
