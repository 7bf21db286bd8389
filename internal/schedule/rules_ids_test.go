package schedule

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Two sessions that enqueue in turn, each when the other has returned, draw ids in that order.
func TestIDsAreDrawnInOrder(t *testing.T) {
	s := newStage(t)
	require.Equal(t, int64(1), pgtest.One[int64](s.DB, "SELECT seqcache FROM pg_sequence "+
		"WHERE seqrelid = pg_get_serial_sequence('pgfifo.jobs', 'id')::regclass"))
	sessions := []*pgtest.Session{s.Session(), s.Session()}
	ids := make([]int64, 4)
	for i := range ids {
		require.NoError(t, sessions[i%2].QueryRow(t.Context(), s.Statement("enqueue"), []string{queue}, []string{"a"},
			[][]byte{{}}, []int64{0}, []int32{0}, nil, nil, nil, nil).Scan(&ids[i]))
	}
	require.IsIncreasing(t, ids)
}

// An enqueue that draws its id and commits late is before all that are made after it has returned. So no floor goes
// past it, however many jobs are finished meanwhile, and though nobody tells: neither by what the claims' snapshots say
// of transactions, nor when the scout asks who is writing.
func TestLateLowerIDIsNotHidden(t *testing.T) {
	pgtest.OverEach(t, []string{"COMMIT", "ROLLBACK"}, func(t *testing.T, end string) {
		pgtest.OverAll(t, map[string]bool{"by snapshots": false, "by asking": true}, func(t *testing.T, watched bool) {
			s := newStage(t)
			s.Enqueue(1, "b")
			producer := s.Session()
			producer.Do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
			w := workPast(s, watched)
			producer.Do(end)
			w.rest(end == "COMMIT")
		})
	})
}

// The same for one that has drawn its id and not written its row yet: a trigger of the user's keeps it.
func TestDrawnIDIsNotHidden(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "b") // the first of 32 ids takes a transaction id by itself
	s.Exec(`CREATE FUNCTION pgfifo.wait() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN IF NEW.payload = ''wait'' THEN PERFORM pg_catalog.pg_advisory_xact_lock(7); END IF; RETURN NEW; END'`)
	s.Exec("CREATE TRIGGER wait BEFORE INSERT ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION pgfifo.wait()")
	gate, producer := s.Session(), s.Session()
	gate.Do("BEGIN; SELECT pg_advisory_xact_lock(7)")
	inserted := producer.Start("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', 'wait')", queue)
	s.Until(func() bool {
		return pgtest.One[bool](s.DB,
			"SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted "+
				"AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "+
				"AND pid = $1)", producer.PgConn().PID())
	})
	w := workPast(s, false)
	gate.Do("COMMIT")
	require.NoError(t, <-inserted)
	w.rest(true)
}

// A passer works the jobs of group a from id 3 on, while the enqueue of the second has not ended.
type passer struct {
	*stage
	turns *Turns
	turn  *Turn
	lane  *lease.Lane
	scout *Scout
}

// workPast works six of twelve jobs; with watched, the scout asks for writers before each.
func workPast(s *stage, watched bool) *passer {
	s.Helper()
	turns, scout := s.scout(time.Second, queue)
	w := &passer{stage: s, turns: turns, lane: s.lane(), scout: scout}
	s.Enqueue(12, "a")
	w.turns.Announce(group("a"), 3)
	w.turn = w.turns.TryNext()
	for id := int64(3); id < 9; id++ {
		w.work(id, watched)
	}
	require.Zero(s, w.turn.floor.id)
	return w
}

func (w *passer) work(id int64, watched bool) {
	w.Helper()
	if watched {
		require.NoError(w, w.scout.checkWriters(w.Context(), w.Session().Conn, View{}))
	}
	h := w.step(w.lane, nil, w.turn.Request())
	require.Equal(w, id, h.ID)
	w.end(w.lane, succeed(h)...)
	require.True(w, w.turns.Again(w.turn, Outcome{Finished: id, More: true, Seen: h.Seen}))
}

// rest works what is left, the first job before the others if it is there now. A floor comes into force, with asking at
// the latest: snapshots alone need not say so while another test has a transaction open.
func (w *passer) rest(first bool) {
	w.Helper()
	if first {
		w.work(2, false)
	}
	for id := int64(9); id < 14; id++ {
		w.work(id, true)
	}
	require.Positive(w, w.turn.floor.id)
}

// A job that is put back with its old id lies below the floor: a notification, or a walk that sees it, drops that at
// once.
func TestLowerIDDropsTheFloor(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*Turns){
		"announced": func(turns *Turns) { turns.PutBack(group("a"), 1) },
		"found":     func(turns *Turns) { turns.floors.looks++; turns.Offer([]Candidate{{Key: group("a"), ID: 1}}) },
	}, func(t *testing.T, tell func(*Turns)) {
		s := newStage(t)
		turns := floored(s)
		tell(turns)
		h := s.step(s.lane(), nil, turns.TryNext().Request())
		require.Equal(t, int64(1), h.ID)
	})
}

// floored returns Turns that have finished three jobs of group a, the first of which was put back since.
func floored(s *stage) *Turns {
	s.Helper()
	turns := NewTurns(10)
	turns.rooms.walked(queue, true)
	turns.Announce(group("a"), 1)
	for id := int64(1); id <= 3; id++ {
		trust(turns)
		seen := lease.Seen{Dialed: math.MaxInt64}
		turns.Done(turns.TryNext(), Outcome{Finished: id, More: true, Seen: seen})
	}
	require.Equal(s, int64(2), turns.floors.of(group("a")).floor.id)
	s.Enqueue(1, "a")
	return turns
}

// If nobody tells that a job was put back with its old id, it is found when there is nothing above the floor.
func TestFloorThatHidesTheOnlyJob(t *testing.T) {
	s := newStage(t)
	l, turns := s.lane(), floored(s)
	turn := turns.TryNext()
	hold := s.step(l, nil, turn.Request())
	require.Nil(t, hold)
	turns.Done(turn, Outcome{Missed: true})
	hold = s.step(l, nil, turns.TryNext().Request())
	require.Equal(t, int64(1), hold.ID)
}
