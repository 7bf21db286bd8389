package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What cannot be let go while somebody has its table locked is tried again after a rest, each time: so there is time
// for claims that need another table.
func TestLockedReleaseRests(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.limit(1)
	k, err := s.dialer(Bounds{Heartbeat: 100 * time.Millisecond}).openSession(t.Context(), func(error) {})
	require.NoError(t, err)
	defer k.close()
	answer := func(a *ask) *ask {
		t.Helper()
		a.done = make(chan struct{})
		require.NoError(t, k.answer([]*ask{a}))
		<-a.done
		return a
	}
	claim := func(id string) *ask { return answer(&ask{claim: &Request{Key: group(id)}}) }
	hold := answer(&ask{claim: &Request{Key: group("a"), Slot: true}}).hold
	require.NotNil(t, hold)
	tx, err := s.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "LOCK pgfifo.slots")
	require.NoError(t, err)

	begun := time.Now()
	require.ErrorIs(t, answer(&ask{releases: []release{{Key: hold.Key, slot: hold.slot}}}).err, ErrBusy)
	for range 3 {
		require.True(t, k.retryAt.After(begun))
		k.retryAt = time.Now().Add(time.Hour)
		require.NoError(t, claim("b").err)
		begun, k.retryAt = time.Now(), time.Now()
		require.ErrorIs(t, claim("b").err, ErrBusy)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	k.retryAt = time.Now()
	require.NoError(t, claim("b").err)
	require.Empty(t, k.unreleased)
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL"))
}

// So is what the server refuses.
func TestRefusedReleaseRests(t *testing.T) {
	s := newStage(t)
	s.refuse("RAISE EXCEPTION 'not this one'", "NEW.session IS NULL")
	s.Enqueue(1, "bad")
	s.Exec("INSERT INTO refused VALUES ('bad')")
	k, err := s.dialer(Bounds{}).openSession(t.Context(), func(error) {})
	require.NoError(t, err)
	defer k.close()
	claim := &ask{claim: &Request{Key: group("bad")}, done: make(chan struct{})}
	require.NoError(t, k.answer([]*ask{claim}))
	require.NotNil(t, claim.hold)
	begun := time.Now()
	free := &ask{releases: []release{{Key: claim.hold.Key, token: claim.hold.token}}, done: make(chan struct{})}
	require.NoError(t, k.answer([]*ask{free}))
	require.True(t, Refused(free.err))
	require.True(t, k.retryAt.After(begun))
	require.Len(t, k.unreleased, 1)
}
