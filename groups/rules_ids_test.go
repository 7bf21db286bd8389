package groups

import (
	"testing"

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

// Turns remember a floor. A notification with a lower id, or a walk that sees one, drops it at once.
func TestLateLowerIDDropsTheFloor(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(*Turns){
		"announced": func(turns *Turns) { turns.Announce(group("a"), 1) },
		"found":     func(turns *Turns) { turns.Offer([]Candidate{{Key: group("a"), ID: 1}}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			l := s.lane()
			h, producer := late(s, l)
			turns := NewTurns(10)
			turns.Walked(true)
			turns.Announce(h.Key, 2)
			turn := turns.TryNext()
			require.NoError(t, producer.Commit(t.Context()))
			turns.Done(turn, Outcome{Finished: 2, More: true})
			tell(turns)
			h, _, err := l.Step(t.Context(), succeed(h), turns.TryNext())
			require.NoError(t, err)
			require.Equal(t, int64(1), h.ID)
		})
	}
}

// If nobody tells, it is found when there is nothing above the floor.
func TestFloorThatHidesTheOnlyJob(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.lane()
	h, producer := late(s, l)
	s.end(l, succeed(h)...)
	s.end(l, succeed(s.claim(l, "a"))...) // job 3
	require.NoError(t, producer.Commit(t.Context()))
	turns := NewTurns(10)
	turns.Walked(true)
	turns.Announce(h.Key, 2)
	turns.Done(turns.TryNext(), Outcome{Finished: 3, More: true})

	turn := turns.TryNext()
	hold, _, err := l.Step(t.Context(), nil, turn)
	require.NoError(t, err)
	require.Nil(t, hold)
	turns.Done(turn, Outcome{Missed: true})
	hold, _, err = l.Step(t.Context(), nil, turns.TryNext())
	require.NoError(t, err)
	require.Equal(t, int64(1), hold.ID)
}
