package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// answering returns a session, and what has it answer one by itself.
func (s *stage) answering(bounds Bounds) (k *session, answer func(a *ask) *ask) {
	s.Helper()
	k, err := openSession(s.Context(), s.dialer(bounds), func(error) {})
	require.NoError(s, err)
	s.Cleanup(k.close)
	return k, func(a *ask) *ask {
		s.Helper()
		a.done = make(chan struct{})
		require.NoError(s, k.answer([]*ask{a}))
		<-a.done
		return a
	}
}

// What cannot be let go while somebody has its table locked is tried again after a rest, each time: so there is time
// for claims that need another table.
func TestLockedReleaseRests(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.limit(1)
	k, answer := s.answering(Bounds{Heartbeat: 100 * time.Millisecond})
	claim := func(id string) *ask { return answer(&ask{claim: request(id)}) }
	hold := answer(&ask{claim: &Request{Key: group("a"), Slot: true}}).hold
	require.NotNil(t, hold)
	tx := s.begin()
	s.do(tx, "LOCK pgfifo.slots")
	begun := time.Now()
	require.ErrorIs(t, answer(&ask{releases: []release{{Key: hold.Key, slot: hold.slot}}}).err, ErrBusy)
	for range 3 {
		require.True(t, k.retryAt.After(begun))
		require.NoError(t, claim("b").err)
		begun = time.Now()
		require.NoError(t, k.retry())
		require.Len(t, k.unreleased, 1)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, k.retry())
	require.Empty(t, k.unreleased)
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL"))
}

// So is what the server refuses.
func TestRefusedReleaseRests(t *testing.T) {
	s := newStage(t)
	s.refuse(notThis, letGo, "bad")
	s.Enqueue(1, "bad")
	k, answer := s.answering(Bounds{})
	hold := answer(&ask{claim: request("bad")}).hold
	require.NotNil(t, hold)
	begun := time.Now()
	free := answer(&ask{releases: []release{{Key: hold.Key, token: hold.token}}})
	require.True(t, Refused(free.err))
	require.True(t, k.retryAt.After(begun))
	require.Len(t, k.unreleased, 1)
}

// A job is given back although its release waits for a lock on the table.
func TestGivenBackBehindALockedTable(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	k := s.keeper()
	first, other := s.borrow(k, "b")
	require.NoError(t, first.Record(t.Context(), &other.Held), "its lane has all statements prepared then")
	b, hold := s.borrow(k, "a")
	tx := s.begin()
	s.do(tx, "LOCK pgfifo.queue_groups IN SHARE MODE")
	recorded := beside(func() error { return b.Record(t.Context(), &hold.Held) })
	s.Until(func() bool { return k.slow.is(hold.Key) }) // the first try has been refused
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-recorded)
	require.Empty(t, s.groupsOf())
}
