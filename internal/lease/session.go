package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A session is the Keeper's connection. One goroutine uses it, for all who ask.
type session struct {
	conn   *pgx.Conn
	stream *stream // below it
	number int64   // of its lock
	dialed int64   // as of a Lane
	stmts  statements
	last   pipeline // the next one takes its place
	bounds Bounds

	asks  chan *ask
	once  sync.Once
	lives context.Context //nolint:containedctx // it ends with the session; its cause is why
	die   context.CancelCauseFunc
	tell  func(why error)

	deferred   []*ask    // claims for which the last round had no room: the next one makes them
	unwanted   []release // what the last round has claimed for nothing: the next one lets it go
	unreleased []release // that have failed: they are made again, apart from what is asked
	tries      int       // how many times in a row they were
	retryAt    time.Time // and when they are next
	ending     bool      // it ends when it has nothing more to let go
}

// A release is a group that is to be let go, or a slot of a queue that has a limit.
type release struct {
	groups.Key
	token int64
	next  int64 // the row's session then; 0: it is given back
	slot  int32 // 0: it is a group
}

// An ask is what somebody wants of the session: a claim, or releases.
type ask struct {
	claim    *Request
	releases []release

	heads    []Held // what the round has read: heads of groups
	behind   []Held // and jobs behind a batch's head
	hold     *Hold
	missed   Miss  // OverLimit if no slot was free
	slot     int32 // that the claim has got, or 0
	deferred bool  // it was not made yet: beside the payloads of others there was no room
	ends     bool  // the session is to end when it has nothing more to let go
	refused  error
	err      error
	done     chan struct{}
}

const (
	stmtKeepLock      = "pgfifo_keep_lock"
	stmtKeepClaim     = "pgfifo_keep_claim"
	stmtKeepBehind    = "pgfifo_keep_behind"
	stmtKeepFree      = "pgfifo_keep_free"
	stmtKeepSlots     = "pgfifo_keep_slots"
	stmtKeepSlotsFree = "pgfifo_keep_slots_free"
)

// openSession opens a session that is to hold groups. The caller starts run.
func openSession(ctx context.Context, d *Dialer, lost func(error)) (*session, error) {
	l, err := d.connect(ctx, d.direct(), false)
	if err != nil {
		return nil, err
	}
	conn, bounds := l.Conn(), d.Bounds.WithDefaults()
	s := &session{
		conn: conn, stream: l.stream, number: 1 + rand.Int64N(1<<62), dialed: dials.Add(1), bounds: bounds,
		stmts: unprepared(d.Schema, ownTexts), asks: make(chan *ask, tuning.Rows), tell: lost,
	}
	s.lives, s.die = context.WithCancelCause(context.Background())
	// Claims are to be durable whatever the database's default is; as marks (mark.sql), on this server. The session is
	// idle between them, and its pulse keeps the server from ending it.
	//
	// A lock on a whole table is waited for only for a moment, or the server would seem to be silent.
	const set = "SELECT pg_catalog.set_config('synchronous_commit', 'local', false), " +
		"pg_catalog.set_config('idle_session_timeout', $2, false), pg_catalog.set_config('lock_timeout', $3, false), " +
		"pg_catalog.pg_try_advisory_lock($1::bigint)"
	alone := false
	err = conn.QueryRow(ctx, set, s.number, millis(bounds.ServerSilence), millis(bounds.Heartbeat)).
		Scan(nil, nil, nil, &alone)
	if err == nil && !alone {
		err = errors.New("somebody has its lock")
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("lease: session: %w", err)
	}
	return s, nil
}

func (s *session) ended() bool { return s.lives.Err() != nil }

// end says that the session is given up.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.die(why)
		if why == errClosed { //nolint:errorlint // itself
			_ = s.conn.PgConn().Conn().SetDeadline(time.Now().Add(tuning.Wait)) // of a round that is under way
			return
		}
		s.tell(why)
	})
}

// do asks, and waits for the answer.
func (s *session) do(a *ask) error {
	a.done = make(chan struct{})
	select {
	case s.asks <- a:
	case <-s.lives.Done():
		return s.lost()
	}
	select {
	case <-a.done:
		return a.err
	case <-s.lives.Done():
		return s.lost()
	}
}

func (s *session) lost() error { return fmt.Errorf("%w: %w", ErrLost, context.Cause(s.lives)) }

// run answers asks until the session has ended. While nobody asks it tells the server that it lives.
func (s *session) run() {
	defer s.close()
	for !s.ended() {
		next := s.next()
		if len(next) == 0 && s.ending && len(s.unreleased) == 0 {
			s.end(errClosed)
			return
		}
		if len(next) == 0 {
			wait := s.bounds.Heartbeat / 2
			if len(s.unreleased) > 0 {
				wait = min(wait, max(time.Until(s.retryAt), 0))
			}
			select {
			case <-s.lives.Done():
				return
			case a := <-s.asks:
				next = []*ask{a}
			case <-time.After(wait):
			}
		}
		var err error
		switch {
		case len(s.unreleased) > 0 && !time.Now().Before(s.retryAt):
			err = s.retry()
		case len(next) == 0:
			if err = s.bounded(nil); Refused(err) { // it tells the server that the worker lives
				err = nil
			}
		}
		if err == nil && len(next) > 0 {
			err = s.answer(s.gather(next))
		}
		if err != nil {
			s.end(err)
		}
	}
}

// next returns the asks that the last round has left, to be answered at once.
func (s *session) next() (asks []*ask) {
	asks, s.deferred = s.deferred, nil
	if len(s.unwanted) > 0 {
		asks = append(asks, &ask{releases: s.unwanted, done: make(chan struct{})})
		s.unwanted = nil
	}
	return asks
}

// close ends the connection; politely, if there is no round under way, so that the server knows at once.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), tuning.Wait)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// retryLater keeps releases that have failed: retry makes them again.
func (s *session) retryLater(failed []release) {
	if len(s.unreleased) == 0 {
		s.retryAfter(0)
	}
	s.unreleased = append(s.unreleased, failed...)
}

// retryAfter puts off the next retry, for at least as long as the last one took: claims are made meanwhile.
func (s *session) retryAfter(took time.Duration) {
	s.retryAt = time.Now().Add(max(took, rest.Nth(s.tries+1, tuning.Rest, s.bounds.Heartbeat/2)))
}

// retry makes the releases again that have failed.
func (s *session) retry() error {
	begun, again := time.Now(), s.unreleased
	s.unreleased = nil
	err := s.release(again, begun.Add(s.bounds.Heartbeat/2))
	if s.tries++; len(s.unreleased) == 0 {
		s.tries = 0
	}
	s.retryAfter(time.Since(begun))
	return err
}

// release makes releases again, and if the server refuses something of them, each half by itself. What it has no time
// for comes first the next time.
func (s *session) release(some []release, until time.Time) error {
	err := s.bounded([]*ask{{releases: some}})
	half := len(some) / 2
	switch {
	case err == nil || !Refused(err):
		return err
	case half == 0 || locked(err):
		s.unreleased = append(s.unreleased, some...)
		return nil
	}
	for _, part := range [][]release{some[:half], some[half:]} {
		if time.Now().After(until) {
			s.unreleased = slices.Concat(part, s.unreleased)
		} else if err := s.release(part, until); err != nil {
			return err
		}
	}
	return nil
}

// gather adds the asks that wait to those that have waited longest. What a round has no room for waits for the next.
func (s *session) gather(asks []*ask) []*ask {
	for len(asks) < tuning.Rows {
		select {
		case a := <-s.asks:
			asks = append(asks, a)
		default:
			return asks
		}
	}
	return asks
}

var errSilent = errors.New("lease: the server is silent")

// ErrBusy is returned for a claim that a lock on a whole table has kept waiting.
var ErrBusy = errors.New("lease: somebody has a table locked")

func locked(err error) bool { return sqlState(err) == lockNotAvailable }

// answer answers asks in one transaction, or, if the server refuses something of them, each in one of its own. An error
// is the connection's.
func (s *session) answer(asks []*ask) error {
	err := s.bounded(asks)
	refused := err != nil && Refused(err)
	switch {
	case refused && locked(err):
		err = fmt.Errorf("%w: %s", ErrBusy, err.Error()) // it blames no group
		for _, a := range asks {
			s.retryLater(a.releases) // claims may need another table
		}
	case refused && len(asks) > 1:
		for i := range asks {
			if err := s.answer(asks[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	case refused:
		s.retryLater(asks[0].releases)
	}
	for _, a := range asks {
		if a.deferred && err == nil {
			s.deferred = append(s.deferred, a)
			continue
		}
		a.err = cmp.Or(err, a.refused)
		s.ending = s.ending || a.ends
		close(a.done)
	}
	if refused {
		err = nil
	}
	return err
}

// bounded makes a round, which ends if the server is silent for Silence. It may take longer: the server may send much.
func (s *session) bounded(asks []*ask) (err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer s.stream.unless(s.bounds.Silence, func() { cancel(errSilent) })()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}()
	r := newRound(s, asks)
	if len(r.groups)+len(r.slots)+len(r.limited)+len(r.claims) == 0 {
		return s.conn.Ping(ctx)
	}
	err = r.run(ctx)
	ended := s.rollback(ctx, err)
	if ended == nil && Refused(err) {
		ended = s.rollback(ctx, r.cover(ctx))
	}
	return cmp.Or(ended, err)
}

// rollback ends a transaction that has failed with that error, if any has.
func (s *session) rollback(ctx context.Context, failed error) error {
	if pg := s.conn.PgConn(); failed == nil || pg.IsClosed() || pg.TxStatus() == 'I' {
		return nil
	}
	_, err := s.conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
	return err
}
