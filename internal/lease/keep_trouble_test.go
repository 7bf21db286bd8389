package lease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// refuse has the server refuse, or skip, what is done to the rows of groups, which are in the table "refused" from then
// on: an action of PL/pgSQL. when says to which updates of a row.
func (s *stage) refuse(action, when string, ids ...string) {
	s.Helper()
	s.Exec(`CREATE TABLE refused (group_id text);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.group_id IN (SELECT group_id FROM refused) THEN ` + action + `; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON pgfifo.queue_groups FOR EACH ROW WHEN (` + when + `)
			EXECUTE FUNCTION refuse()`)
	s.Exec("INSERT INTO refused SELECT unnest($1::text[])", ids)
}

// Those who let groups go are refused that.
const (
	notThis = "RAISE EXCEPTION 'not this one'"
	letGo   = "NEW.session IS NULL"
)

// groupsOf returns the groups that sessions have.
func (s *stage) groupsOf() string {
	return pgtest.One[string](s.DB, `SELECT coalesce(string_agg(group_id, ' ' ORDER BY group_id), '')
		FROM pgfifo.queue_groups WHERE session IS NOT NULL`)
}

// giveBack claims groups and gives them back, which succeeds also if the release is to be tried again.
func (s *stage) giveBack(k *Keeper, ids ...string) {
	s.Helper()
	for _, id := range ids {
		b, _ := s.borrow(k, id)
		s.step(b, nil, nil)
	}
}

// Releases that the server refuses together are made one by one. What it refuses for longer is tried again while others
// ask all the time, and keeps nothing else.
func TestReleaseApart(t *testing.T) {
	s := newStage(t)
	ids := []string{"a", "bad", "c"}
	s.refuse(notThis, letGo, ids...)
	s.Enqueue(1, ids...)
	k := s.keeper()
	s.giveBack(k, ids...)
	require.Equal(t, "a bad c", s.groupsOf())
	s.Exec("DELETE FROM refused WHERE group_id <> 'bad'")
	s.Until(func() bool { return s.groupsOf() == "bad" })
	s.giveBack(k, "a", "c")
	require.Equal(t, "bad", s.groupsOf())
	s.Exec("DELETE FROM refused")
	s.Until(func() bool {
		_, missed := s.borrowFor(k, request("nothing"))
		require.Nil(t, missed)
		return s.groupsOf() == ""
	})
	require.False(t, k.session().ended())
}

// A keeper that is closed waits until the server does not refuse any more what is given back.
func TestCloseWaitsForARefusedRelease(t *testing.T) {
	s := newStage(t)
	s.refuse(notThis, letGo, "a")
	s.Enqueue(1, "a")
	k := s.keeper()
	s.giveBack(k, "a")
	closed := beside(func() error { k.Close(time.Minute); return nil })
	s.Until(func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.closed
	})
	s.Exec("DELETE FROM refused")
	require.NoError(t, <-closed)
	require.Empty(t, s.groupsOf())
}

// A claim whose update the server leaves out is none: no handler runs, and what was claimed with it is given back.
func TestClaimThatIsSkipped(t *testing.T) {
	s := newStage(t)
	s.refuse("RETURN NULL", "NEW.session IS NOT NULL", "bad")
	s.Enqueue(1, "a", "bad")
	k := s.keeper()
	for _, request := range []*Request{
		{Key: group("bad")}, {Key: group("a"), With: []Request{{Key: group("bad"), N: 1}}},
	} {
		b, err := k.Borrow(t.Context())
		require.NoError(t, err)
		hold, _, err := b.Step(t.Context(), nil, request)
		require.ErrorIs(t, err, errUnchanged)
		require.True(t, Blames(err))
		require.Nil(t, hold)
	}
	s.Until(func() bool { return s.groupsOf() == "" })
	s.borrow(k, "a")
}

// All who want a session while the server refuses connections have one dialed, less and less often.
func TestOneDialsForAll(t *testing.T) {
	s := newStage(t)
	k := s.keeper()
	k.session().end(errClosed)
	dials, dial := new(atomic.Int64), k.Dialer.Pool.ConnConfig.DialFunc
	down := errors.New("the server is down")
	k.Dialer.Pool.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) <= 6 {
			return nil, down
		}
		return dial(ctx, network, addr)
	}
	var all errgroup.Group
	for range 100 {
		all.Go(func() error {
			for {
				if _, err := k.Borrow(t.Context()); err == nil || !strings.Contains(err.Error(), down.Error()) {
					return err
				}
			}
		})
	}
	require.NoError(t, all.Wait())
	require.LessOrEqual(t, dials.Load(), int64(8), "one for all, with another address or without TLS at most")
}

// Failures that take long to record do not keep jobs waiting that are done, and share no more than a second.
func TestSlowFailuresKeepNoCompletionWaiting(t *testing.T) {
	s := newStage(t)
	s.Exec(`CREATE TABLE gate (); CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(0.4); PERFORM FROM gate; RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION slow()`)
	gate := s.begin()
	s.do(gate, "LOCK gate")
	k := s.keeper()
	var ends []<-chan error
	for _, id := range []string{"a", "b", "c", "d"} {
		s.Enqueue(1, id)
		b, hold := s.borrow(k, id)
		ends = append(ends, s.ending(b, retryIn(hold, 0)))
	}
	for range 20 {
		s.Enqueue(1, "quick")
		b, hold := s.borrow(k, "quick")
		s.step(b, succeed(hold), nil)
		k.slow.mu.Lock() // a group that a busy machine has made slow would wait for the handlers' lane
		delete(k.slow.all, hold.Key)
		k.slow.mu.Unlock()
	}
	for _, end := range ends {
		require.Empty(t, end)
	}
	require.NoError(t, gate.Rollback(t.Context()))
	for _, end := range ends {
		require.NoError(t, <-end)
	}
}

// The calls of many have together what is left of a second.
func TestCallsShareASecond(t *testing.T) {
	s := newStage(t)
	l := s.lane()
	p := l.pipeline(t.Context())
	l.begin(p)
	begun := len(p.answers)
	for range 3 {
		p.send(stmtBoundRest, nil, nil)
		p.sendText("SELECT pg_sleep(0.4)")
	}
	require.True(t, tooLong(p.exchange()))
	require.Equal(t, begun+5, p.read)
}

// What a job needs beside its end is settled together with others, and a commit that all may do without waits for no
// disk.
func TestSharedSettlements(t *testing.T) {
	s := newStage(t)
	s.Exec(`CREATE TABLE commits (group_id text, synchronous text);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO commits VALUES (OLD.group_id, current_setting('synchronous_commit')); RETURN OLD; END $$;
		CREATE TRIGGER note BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION note()`)
	s.Alter("synchronous_commit = on")
	k := s.keeper()
	k.Dialer.Statements["relax"] = s.Statement("relax")
	k.Dialer.Statements["leave"] = "SELECT $1::text, $2::text"
	relax := Call{Statement: "relax", Relaxes: true}
	held := func(id string, calls func(h *Hold) []Call) (*Borrower, *settlement) {
		s.Enqueue(1, id)
		b, hold := s.borrow(k, id)
		made := b.settlement(keptHeads(hold), calls(hold))
		require.NotNil(t, made, id)
		made.ready = make(chan struct{})
		return b, made
	}
	plain := func(h *Hold) []Call { return append([]Call{relax}, succeed(h)...) }
	leaving := func(h *Hold) []Call {
		leave := Call{Statement: "leave", Args: [][]byte{[]byte(h.Queue), []byte(h.GroupID)}}
		return append(plain(h), leave)
	}
	_, a := held("a", plain)
	require.Nil(t, a.calls)
	_, b := held("b", plain)
	_, c := held("c", func(h *Hold) []Call { return succeed(h) })
	_, d := held("d", leaving)
	require.Len(t, d.calls, 2)
	require.NoError(t, k.done.onLane([]*settlement{a}))
	require.NoError(t, k.done.onLane([]*settlement{b, c}))
	require.NoError(t, k.others.onLane([]*settlement{d}))
	for _, s := range []*settlement{a, b, c, d} {
		require.NoError(t, s.err)
	}
	require.Equal(t, "a=off b=on c=on d=off", pgtest.One[string](s.DB,
		"SELECT string_agg(group_id || '=' || synchronous, ' ' ORDER BY group_id) FROM commits"))
	require.Empty(t, s.groupsOf())
}

// Claims at once have a bound for what they read: what is beyond it is read behind the others, and all are made.
func TestClaimsOfLargePayloads(t *testing.T) {
	s := newStage(t)
	const size = 1 << 20
	var ids []string
	for i := range maxBatchBytes/size + 3 {
		ids = append(ids, fmt.Sprintf("%02d", i))
	}
	s.Enqueue(1, ids...)
	s.Exec("UPDATE pgfifo.jobs SET payload = convert_to(repeat('x', $1), 'UTF8')", size)
	k := s.keeper()
	gate := s.begin() // the first claim waits, and the others for it
	s.do(gate, "LOCK pgfifo.pauses")
	sizes := make(chan int, len(ids))
	var all errgroup.Group
	for i, id := range ids {
		b, err := k.Borrow(t.Context())
		require.NoError(t, err)
		all.Go(func() error {
			hold, _, err := b.Step(t.Context(), nil, &Request{Key: group(id)})
			if hold != nil {
				sizes <- len(hold.Payload)
			}
			return err
		})
		if i == 0 {
			s.Until(func() bool { return s.Blocked(k.session().conn.PgConn().PID()) })
		}
	}
	s.Until(func() bool { return len(k.session().asks) == len(ids)-1 })
	require.NoError(t, gate.Rollback(t.Context()))
	require.NoError(t, all.Wait())
	for range ids {
		require.Equal(t, size, <-sizes)
	}
	require.Equal(t, strings.Join(ids, " "), s.groupsOf())
	require.Equal(t, 3, pgtest.One[int](s.DB, "SELECT count(DISTINCT since) FROM pgfifo.queue_groups"))
}

// What is beyond the bound of a claim is told without its payload, and is not claimed.
func TestClaimWithoutRoom(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.Exec("UPDATE pgfifo.jobs SET payload = 'more than 10 bytes'")
	tx := s.begin()
	queues, ids, none := []string{queue, queue}, []string{"a", "b"}, []int64{0, 0}
	s.do(tx, s.Schema.Qualify(statement("keep_lock")), queues, ids)
	rows, err := tx.Query(t.Context(), s.Schema.Qualify(statement("keep_claim")),
		queues, ids, none, 10, 9, []bool{false, false}, []bool{false, false})
	require.NoError(t, err)
	told, err := pgx.CollectRows(rows, pgx.RowToMap)
	require.NoError(t, err)
	require.Len(t, told, 2)
	for i, row := range told {
		require.Equal(t, i == 0, row["payload"] != nil)
		require.Equal(t, i == 0, row["token"] != int64(0))
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "a", s.groupsOf())
}

// A connection on which something comes is not silent, however long it takes.
func TestUnless(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer func() { _ = here.Close(); _ = there.Close() }()
	h := newStream(here)
	silent := make(chan struct{})
	const silence = 400 * time.Millisecond
	begun := time.Now()
	defer h.unless(silence, func() { close(silent) })()
	buf := make([]byte, 1)
	for time.Since(begun) < 3*silence {
		go func() { _, _ = there.Write([]byte{0}) }()
		_, err := h.Read(buf)
		require.NoError(t, err)
		select {
		case <-silent:
			require.Fail(t, "taken for silent")
		case <-time.After(silence / 20):
		}
	}
	<-silent
}

// A slot that somebody has locked is given back when it is free, and keeps nothing else meanwhile.
func TestLockedSlotKeepsNoOther(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.limit(2)
	k := s.keeper()
	work := func(id string, meanwhile func()) {
		t.Helper()
		b, hold := s.borrowFor(k, &Request{Key: group(id), Slot: true})
		require.NotNil(t, hold)
		meanwhile()
		_ = s.step(b, succeed(hold), nil)
	}
	tx := s.begin()
	work("a", func() {
		s.do(tx, "SELECT FROM pgfifo.slots WHERE session IS NOT NULL FOR NO KEY UPDATE")
	})
	work("b", func() {})
	const taken = "SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL"
	require.Equal(t, 1, pgtest.One[int](s.DB, taken))
	c := s.Session()
	c.Do("SET lock_timeout = '100ms'")
	rows, err := c.Query(t.Context(), s.Schema.Qualify(statement("keep_slots_free")),
		[]string{queue, queue}, []int{1, 2}, k.session().number)
	require.NoError(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err, "it waits for nobody")
	require.Len(t, left, 1)
	require.NoError(t, tx.Rollback(t.Context()))
	s.Until(func() bool { return pgtest.One[int](s.DB, taken) == 0 })
}
