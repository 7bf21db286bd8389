package groups

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// drawnInTurn lets two sessions enqueue in turn, each when the other has returned, and returns the ids.
func drawnInTurn(s *stage) (ids []int64) {
	s.Helper()
	sessions := []*session{s.session(), s.session()}
	for i := range 4 {
		var id int64
		require.NoError(s, sessions[i%2].QueryRow(s.Context(), s.statement("enqueue"),
			[]string{queue}, []string{"a"}, [][]byte{{}}, []int64{0}, []int32{0}, "", "").Scan(&id))
		ids = append(ids, id)
	}
	return ids
}

func TestIDsAreDrawnInOrder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	require.Equal(t, int64(1), one[int64](s, "SELECT seqcache FROM pg_sequence "+
		"WHERE seqrelid = pg_get_serial_sequence('pgfifo.jobs', 'id')::regclass"))
	require.IsIncreasing(t, drawnInTurn(s))
}

func TestCachedIDsAreNotDrawnInOrder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.exec("ALTER TABLE pgfifo.jobs ALTER COLUMN id SET CACHE 32")
	require.Equal(t, []int64{1, 33, 2, 34}, drawnInTurn(s))
}

// late enqueues to group a in the order 1, 2, 3, but the first commits when the second job is held.
func late(s *stage, l *Lane) (*Hold, pgx.Tx) {
	s.Helper()
	producer := s.session()
	tx, err := producer.Begin(s.Context())
	require.NoError(s, err)
	_, err = tx.Exec(s.Context(), "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
	require.NoError(s, err)
	s.enqueue(2, "a")
	h := s.claim(l, "a")
	require.Equal(s, int64(2), h.ID, "what is not committed cannot be waited for")
	return h, tx
}

func TestLateLowerIDIsClaimedNext(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.lane()
	h, producer := late(s, l)
	require.NoError(t, producer.Commit(t.Context()))
	h, _, err := l.Step(t.Context(), succeed(h), &Turn{Key: h.Key})
	require.NoError(t, err)
	require.Equal(t, int64(1), h.ID)
	h, _, err = l.Step(t.Context(), succeed(h), &Turn{Key: h.Key})
	require.NoError(t, err)
	require.Equal(t, int64(3), h.ID)
}

// An enqueue that draws its id and commits late is before all that are made after it has returned. So no floor goes past it,
// however many jobs are finished meanwhile, and though nobody tells.
func TestLateLowerIDIsNotHidden(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"COMMIT", "ROLLBACK"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			turns, scout := s.scout(time.Second, queue)
			watch := func() {
				t.Helper()
				require.NoError(t, scout.checkWriters(t.Context(), s.session().Conn))
			}
			producer := s.session()
			_, err := producer.Exec(t.Context(), "BEGIN")
			require.NoError(t, err)
			_, err = producer.Exec(t.Context(), "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
			require.NoError(t, err)
			s.enqueue(12, "a")
			turns.Announce(group("a"), 2)
			l := s.lane()
			turn := turns.TryNext()
			work := func(id int64) {
				t.Helper()
				watch()
				h, _, err := l.Step(t.Context(), nil, turn)
				require.NoError(t, err)
				require.Equal(t, id, h.ID)
				s.end(l, succeed(h)...)
				require.True(t, turns.Again(turn, Outcome{Finished: id, More: true}))
			}
			for id := int64(2); id < 8; id++ {
				work(id)
			}
			require.Zero(t, turn.floor.id)
			_, err = producer.Exec(t.Context(), end)
			require.NoError(t, err)
			if end == "COMMIT" {
				work(1)
			}
			for id := int64(8); id < 12; id++ {
				work(id)
			}
			require.Positive(t, turn.floor.id)
		})
	}
}

// A job that is put back with its old id lies below the floor: a notification, or a walk that sees it, drops that at once.
func TestLowerIDDropsTheFloor(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*Turns){
		"announced": func(turns *Turns) { turns.Announce(group("a"), 1) },
		"found":     func(turns *Turns) { turns.Offer([]Candidate{{Key: group("a"), ID: 1}}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			turns := floored(s)
			tell(turns)
			h, _, err := s.lane().Step(t.Context(), nil, turns.TryNext())
			require.NoError(t, err)
			require.Equal(t, int64(1), h.ID)
		})
	}
}

// floored returns Turns that have finished three jobs of group a, the first of which was put back since.
func floored(s *stage) *Turns {
	s.Helper()
	turns := NewTurns(10)
	turns.Walked(true)
	turns.Announce(group("a"), 1)
	for id := int64(1); id <= 3; id++ {
		trust(turns)
		turns.Done(turns.TryNext(), Outcome{Finished: id, More: true})
	}
	require.Equal(s, int64(2), turns.floors.get(group("a")).id)
	s.enqueue(1, "a")
	return turns
}

// If nobody tells that a job was put back with its old id, it is found when there is nothing above the floor.
func TestFloorThatHidesTheOnlyJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l, turns := s.lane(), floored(s)
	turn := turns.TryNext()
	hold, _, err := l.Step(t.Context(), nil, turn)
	require.NoError(t, err)
	require.Nil(t, hold)
	turns.Done(turn, Outcome{Missed: true})
	hold, _, err = l.Step(t.Context(), nil, turns.TryNext())
	require.NoError(t, err)
	require.Equal(t, int64(1), hold.ID)
}
