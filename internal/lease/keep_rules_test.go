package lease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/array"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// keeper returns one whose session is open.
func (s *stage) keeper() *Keeper {
	s.Helper()
	return s.keeperOf(s.dialer(Bounds{}))
}

func (s *stage) keeperOf(d *Dialer) *Keeper {
	s.Helper()
	k := NewKeeper(d, 1, func(error) {})
	require.NoError(s, k.Connect(s.Context()))
	s.Cleanup(func() { k.Close(time.Second) })
	return k
}

// borrow returns a borrower that has claimed a group, which must be free, and the claim.
func (s *stage) borrow(k *Keeper, id string) (*Borrower, *Hold) {
	s.Helper()
	b, hold := s.borrowFor(k, request(id))
	require.NotNil(s, hold, id)
	return b, hold
}

// borrowFor returns a borrower that has claimed, and the claim, or nil if it has missed.
func (s *stage) borrowFor(k *Keeper, r *Request) (*Borrower, *Hold) {
	s.Helper()
	b, err := k.Borrow(s.Context())
	require.NoError(s, err)
	return b, s.step(b, nil, r)
}

// What a session has nobody else claims: another session, a lane, or the session itself.
func TestSessionHoldsAlone(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a")
	k := s.keeper()
	b, hold := s.borrow(k, "a")
	for name, other := range map[string]*Keeper{"itself": k, "another": s.keeper()} {
		_, missed := s.borrowFor(other, request("a"))
		require.Nil(t, missed, name)
	}
	require.True(t, s.misses(s.lane(), "a"))
	s.step(b, succeed(hold), nil)
	require.False(t, s.misses(s.lane(), "a"))
}

// A session tells of a job with which two workers have died, and claims it only if it is asked to.
func TestSessionClaimsSuspectsWhenAsked(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec(`UPDATE pgfifo.jobs SET attempts = 2, failures = '[{"kind": "lost"}, {"kind": "lost"}]'`)
	k, r := s.keeper(), request("a")
	b, hold := s.borrowFor(k, r)
	require.True(t, hold.Suspect)
	require.Empty(t, s.groupsOf())
	r.SuspectAllowed = true
	require.True(t, s.step(b, nil, r).Suspect)
	require.Equal(t, "a", s.groupsOf())
}

// Who has lost a group settles nothing of it, neither with others, nor alone, nor as a failure: to a later claim, or to
// the claim of another session that has drawn the same token, since a dump was restored.
func TestFormerHolderSettlesNothing(t *testing.T) {
	s := newStage(t)
	k := s.keeper()
	for id, end := range map[string]func(b *Borrower, hold *Hold) error{
		"done": func(b *Borrower, hold *Hold) error {
			_, _, err := b.Step(t.Context(), succeed(hold), nil)
			return err
		},
		"failed": func(b *Borrower, hold *Hold) error {
			_, _, err := b.Step(t.Context(), retryIn(hold, 0), nil)
			return err
		},
		"recorded": func(b *Borrower, hold *Hold) error {
			return b.Record(t.Context(), &hold.Held, succeed(hold)...)
		},
	} {
		for to, change := range map[string]string{
			"the same session's": "token = token + 1",
			"another session's":  "session = 5",
		} {
			id, key := id+" "+to, "WHERE group_id = $1"
			s.Enqueue(1, id)
			b, hold := s.borrow(k, id)
			s.Exec("UPDATE pgfifo.queue_groups SET "+change+" "+key, id)
			const state = "SELECT session::text || '/' || token::text FROM pgfifo.queue_groups WHERE group_id = $1"
			before := pgtest.One[string](s.DB, state, id)
			require.ErrorIs(t, end(b, hold), ErrNotHeld, id)
			require.Equal(t, before, pgtest.One[string](s.DB, state, id), id)
			require.Zero(t, pgtest.One[int](s.DB, "SELECT attempts FROM pgfifo.jobs "+key, id), id)
		}
	}
}

// ending settles what the borrower has, beside the test.
func (s *stage) ending(b *Borrower, calls []Call) <-chan error {
	return beside(func() error {
		_, _, err := b.Step(s.Context(), calls, nil)
		return err
	})
}

// lostBefore marks the first attempt of a group's head as one that has begun.
func (s *stage) lostBefore(id string) {
	s.Helper()
	s.Exec("INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt) "+
		"SELECT queue, group_id, id, 1 FROM pgfifo.jobs WHERE group_id = $1", id)
}

// Failures that wait for a lane share a transaction, with the marks of attempts that were lost. One of them is of a
// group that is not its claim's any more.
func TestFailuresAreSettledTogether(t *testing.T) {
	s := newStage(t)
	k := s.keeper()
	ids := []string{"first", "a", "b", "lost", "taken"}
	ends := make(map[string]<-chan error)
	busy, err := k.others.lanes.get(t.Context())
	require.NoError(t, err)
	for _, id := range ids {
		s.Enqueue(1, id)
		if id == "lost" {
			s.lostBefore(id)
		}
		b, hold := s.borrow(k, id)
		lost := s.found(b)
		require.Equal(t, id == "lost", len(lost) == 1, id)
		if id == "taken" {
			s.Exec("UPDATE pgfifo.queue_groups SET token = token + 1 WHERE group_id = $1", id)
		}
		ends[id] = s.ending(b, retryIn(hold, 0))
		if id == ids[0] { // which waits for the lane by itself
			s.Until(func() bool {
				k.others.mu.Lock()
				defer k.others.mu.Unlock()
				return k.others.busy && len(k.others.waiting) == 0
			})
		}
	}
	s.Until(func() bool {
		k.others.mu.Lock()
		defer k.others.mu.Unlock()
		return len(k.others.waiting) == len(ids)-1
	})
	k.others.lanes.put(busy)
	for _, id := range ids {
		if err := <-ends[id]; id == "taken" {
			require.ErrorIs(t, err, ErrNotHeld)
		} else {
			require.NoError(t, err, id)
		}
	}
	const by = "SELECT string_agg(group_id, ' ' ORDER BY id) FROM pgfifo.jobs WHERE attempts = 1 " +
		"AND xmin = (SELECT xmin FROM pgfifo.jobs WHERE group_id = 'a')"
	require.Equal(t, "a b lost", pgtest.One[string](s.DB, by))
	require.Equal(t, "taken", pgtest.One[string](s.DB,
		"SELECT string_agg(group_id, ' ') FROM pgfifo.queue_groups WHERE session IS NOT NULL"))
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks"))
}

// What is to record a lost attempt finds the job otherwise than it was claimed: then the mark of the attempt stays,
// whatever other call stands before it, and the session lets the group go as one that has died.
func TestMarkStaysWithAnUnrecordedAttempt(t *testing.T) {
	calls := map[string][]Call{"nothing before": nil, "a call before": {{Statement: "other"}}}
	pgtest.OverAll(t, calls, func(t *testing.T, before []Call) {
		s := newStage(t)
		s.Enqueue(1, "a")
		s.lostBefore("a")
		k := s.keeper()
		k.Dialer.Statements["other"] = "SELECT 1"
		b, hold := s.borrow(k, "a")
		s.found(b)
		s.Exec("UPDATE pgfifo.jobs SET attempts = 1")
		calls := append(before, retryIn(hold, 0)...)
		calls[len(calls)-1].Counts = true
		together := b.settlement(keptHeads(hold), calls)
		require.ErrorIs(t, k.others.onLane([]*settlement{together}), errApart)
		_, _, err := b.Step(t.Context(), calls, nil)
		require.ErrorContains(t, err, "is left as it was")
		require.ErrorContains(t, b.Record(t.Context(), &hold.Held, calls...), "is left as it was")
		require.Equal(t, 1, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks"))
		require.NotEqual(t, k.session().number, pgtest.One[int64](s.DB, "SELECT session FROM pgfifo.queue_groups"))
	})
}

// A job behind the head of a batch was replaced several times, and its row is where it was when it was read: the batch
// is undone.
func TestReplacedInItsPlace(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{
		"a handler has the transaction": true, "none has it": false,
	}, func(t *testing.T, ask bool) {
		s := newStage(t)
		ids := s.Enqueue(2, "a")
		// The first place of a row is not given again.
		s.Exec("UPDATE pgfifo.jobs SET payload = 'older' WHERE id = $1", ids[1])
		k := s.keeper()
		b, hold := s.borrowFor(k, &Request{Key: group("a"), Jobs: 2})
		require.Len(t, hold.Rest, 1)
		at := string(hold.Rest[0].Place.Append(nil))
		for there := ""; there != at; { // comes round, because nobody can see the former ones
			s.Exec("UPDATE pgfifo.jobs SET payload = 'newer' WHERE id = $1", ids[1])
			s.Exec("VACUUM pgfifo.jobs")
			there = pgtest.One[string](s.DB, "SELECT ctid::text FROM pgfifo.jobs WHERE id = $1", ids[1])
		}
		if ask {
			require.NoError(t, b.Lend(t.Context(), func() { require.NoError(t, b.borrow(t.Context(), b.Loan())) }))
			require.NoError(t, b.KeepWrites(t.Context()))
		}
		jobs := array.Of(ids[1:], array.Int[int64])
		places := array.Of(hold.Rest, func(to []byte, h Held) []byte { return h.Place.Element(to) })
		args := [][]byte{[]byte(queue), jobs, places}
		behind := Call{Statement: "behind", Behind: true, Args: args}
		_, _, err := b.Step(t.Context(), append(succeed(hold), behind), nil)
		require.ErrorIs(t, err, ErrGivenBack)
		require.Equal(t, 2, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
		require.True(t, pgtest.One[bool](s.DB, "SELECT session IS NULL FROM pgfifo.queue_groups"))
	})
}

// A job whose completion takes long, because of a trigger of the user's, keeps no other one waiting for long.
func TestSlowCompletionKeepsNoOtherWaiting(t *testing.T) {
	s := newStage(t)
	s.Exec(`CREATE TABLE audit (n int); INSERT INTO audit VALUES (0);
		CREATE FUNCTION audited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF OLD.group_id LIKE 'slow%' THEN UPDATE audit SET n = n + 1; END IF; RETURN OLD; END $$;
		CREATE TRIGGER audited BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION audited()`)
	tx := s.begin()
	s.do(tx, "UPDATE audit SET n = 0")
	k := s.keeper()
	k.Lanes = NewLanes(k.Dialer, 2)
	end := make(map[string]<-chan error)
	complete := func(id string) {
		s.Enqueue(1, id)
		b, hold := s.borrow(k, id)
		end[id] = s.ending(b, succeed(hold))
	}
	complete("slow 1")
	complete("slow 2")
	s.Until(func() bool { return k.slow.is(group("slow 1")) && k.slow.is(group("slow 2")) })
	complete("quick")
	require.NoError(t, <-end["quick"])
	require.Empty(t, end["slow 1"])
	require.Empty(t, end["slow 2"])
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-end["slow 1"])
	require.NoError(t, <-end["slow 2"])
	require.False(t, k.slow.is(group("quick")))
}

// A claim is committed by the time when it is answered; what is forfeited is a dead session's.
func TestSessionsClaimIsCommitted(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	k := s.keeper()
	b, hold := s.borrow(k, "a")
	const has = "SELECT session FROM pgfifo.queue_groups WHERE job = 1 AND attempt = 1 AND token = $1"
	require.Equal(t, k.session().number, pgtest.One[int64](s.DB, has, hold.token))
	const dead = "SELECT pg_try_advisory_xact_lock_shared(session) FROM pgfifo.queue_groups WHERE session IS NOT NULL"
	require.False(t, pgtest.One[bool](s.DB, dead))
	b.Forfeit(t.Context())
	require.True(t, pgtest.One[bool](s.DB, dead))
}

// A claim is on disk before its handler begins, whatever the database says of commits.
func TestSessionsClaimIsDurable(t *testing.T) {
	s := newStage(t)
	s.Alter("synchronous_commit = off")
	s.Enqueue(1, "a", "b", "c")
	k := s.keeper()
	for _, id := range []string{"a", "b", "c"} {
		before := pgtest.One[string](s.DB, "SELECT pg_current_wal_insert_lsn()::text")
		s.borrow(k, id)
		require.True(t, pgtest.One[bool](s.DB, "SELECT pg_current_wal_flush_lsn() > $1::text::pg_lsn", before), id)
	}
}

// A slot of a queue is a session's until the job is settled, or the session has died: nobody else takes it.
func TestSessionsSlotIsTaken(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b", "c")
	s.limit(1)
	claim := func(k *Keeper, id string) (*Borrower, *Hold) {
		b, hold := s.borrowFor(k, &Request{Key: group(id), Slot: true})
		require.Equal(t, hold == nil, b.Missed() == OverLimit)
		return b, hold
	}
	first, second := s.keeper(), s.keeper()
	b, hold := claim(first, "a")
	require.NotNil(t, hold)
	full := func() {
		for name, k := range map[string]*Keeper{"itself": first, "another": second} {
			_, over := claim(k, "b")
			require.Nil(t, over, name)
		}
		l := s.lane()
		require.Nil(t, s.slot(l, nil, "b"))
		require.Equal(t, OverLimit, l.Missed())
	}
	full()
	s.step(b, succeed(hold), nil)
	_, hold = claim(second, "b")
	require.NotNil(t, hold)
	second.session().end(errClosed)
	s.Until(func() bool {
		_, hold := claim(first, "c")
		return hold != nil
	})
}

// A session that nobody asks anything hears that it has ended, and tells it.
func TestSessionHearsOfItsEnd(t *testing.T) {
	s := newStage(t)
	k := s.keeper()
	told := make(chan error, 1)
	k.Lost = func(why error) { told <- why }
	k.session().end(errClosed)
	require.NoError(t, k.Connect(t.Context()))
	s.Terminate(k.session().conn.PgConn().PID())
	select {
	case why := <-told:
		require.ErrorContains(t, why, "terminating connection")
	case <-time.After(10 * time.Second):
		require.Fail(t, "nobody was told that the session has ended")
	}
	require.ErrorIs(t, k.session().do(&ask{}), ErrLost)
}

// A handler's transaction ends with the session: others can have the group, and it is told, whatever context it asks
// with.
func TestTransactionEndsWithTheSession(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	k := s.keeper()
	k.Dialer.Bounds.ServerSilence = time.Hour // of lanes, which the server does not end meanwhile
	b, _ := s.borrow(k, "a")
	require.ErrorIs(t, b.Lend(t.Context(), func() {
		_, err := b.Loan().PgxTx(t.Context())
		require.NoError(t, err)
		s.Terminate(k.session().conn.PgConn().PID())
		s.Until(func() bool { return len(s.Locked()) == 0 })
	}), ErrLost)

	s.Enqueue(1, "b")
	require.NoError(t, k.Connect(t.Context()))
	b, _ = s.borrow(k, "b")
	require.ErrorIs(t, b.Lend(t.Context(), func() {
		k.session().end(errSilent)
		ctx := context.WithoutCancel(t.Context())
		_, err := b.Loan().PgxTx(ctx)
		require.ErrorIs(t, err, ErrLost)
	}), ErrLost)
}

// A Connect that comes when the keeper is closed dials nothing.
func TestClosedKeeperConnectsNoMore(t *testing.T) {
	s := newStage(t)
	k := s.keeper()
	last := k.session()
	k.Close(time.Second)
	require.ErrorIs(t, k.Connect(t.Context()), errClosed)
	require.Same(t, last, k.session())
}
