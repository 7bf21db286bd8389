package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/groups"
)

// A Keeper holds groups for a process without a transaction, in one session. It is the other lease, of queues with
// Settings.SessionLease.
//
// The session has one advisory lock, on a number of its own. A claim is a short transaction that writes the number into
// the group's row (sql/keep_claim.sql), with a token and the attempt that begins. While the session lives, nobody else
// claims the group. When it ends, its lock is free, and every group that names it is a dead worker's. Nothing has to be
// undone before others see that. So any number of groups cost one connection and one lock.
//
// A job is settled in a transaction that locks the group's row and finds the token there (Borrower). So what a former
// holder writes through the job's transaction cannot commit, whatever it believes.
//
// Its methods are for any goroutine. Whoever made it closes it.
type Keeper struct {
	Dialer *Dialer
	// Lanes are for the jobs' transactions.
	Lanes *Lanes
	// Ends are lanes to settle jobs whose handlers had no transaction. No handler keeps one.
	Ends *Lanes
	// Plain is the statement among those of the Dialer that completes one job and does nothing else. Its parameters
	// begin with the job's queue, group id and id.
	Plain string
	// Lost is told why a session has ended that was not closed. Required.
	Lost func(why error)

	mu     sync.Mutex
	now    *session // the last one
	dialed *attempt // the one that is under way, or nil
	closed bool

	done      []*finish // jobs that wait to be completed together
	finishing bool
}

// An attempt to open a session is one for all who want it meanwhile.
type attempt struct {
	done chan struct{}
	err  error
}

// errNoSession is ErrLost for a claim that nobody has made.
var errNoSession = fmt.Errorf("%w: there is no session", ErrLost)

// Connect opens the session, if there is none that lives.
func (k *Keeper) Connect(ctx context.Context) error {
	k.mu.Lock()
	if k.now != nil && !k.now.ended() {
		k.mu.Unlock()
		return nil
	}
	a := k.dialed
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		k.dialed = a
		go k.dial(context.WithoutCancel(ctx), a) // for others as well
	}
	k.mu.Unlock()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Keeper) dial(ctx context.Context, a *attempt) {
	ctx, cancel := context.WithTimeout(ctx, k.Dialer.Session.WithDefaults().Silence)
	defer cancel()
	s, err := k.Dialer.keep(ctx, k.Lost)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.closed {
		s.end(errClosed)
	}
	if err == nil {
		k.now = s
	}
	a.err, k.dialed = err, nil
	close(a.done)
}

func (k *Keeper) session() *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// Close ends the session, and with it what it holds, and closes the lanes. It waits for a second at most.
func (k *Keeper) Close() {
	k.mu.Lock()
	s := k.now
	k.closed = true
	k.mu.Unlock()
	if s != nil {
		last := time.AfterFunc(closeWait, func() { s.end(errClosed) })
		_ = s.do(&ask{}) // what is owed goes with it
		last.Stop()
		s.end(errClosed)
	}
	k.Lanes.Close()
	k.Ends.Close()
}

var errClosed = errors.New("lease: the keeper is closed")

// closeWait is how long the server has to answer before the session is closed all the same.
const closeWait = time.Second

// A session is the Keeper's connection. One goroutine uses it, for all who ask.
type session struct {
	conn   *pgx.Conn
	number int64 // of its lock
	dialed int64 // as of a Lane
	stmts  map[string]*pgconn.StatementDescription
	bounds Session

	asks chan *ask
	once sync.Once
	why  error
	gone chan struct{} // closed when it has ended
	tell func(why error)

	owed      []release // groups that are not let go yet
	owedSlots []slot
	balked    bool // the server has refused to let them go
}

// A release is a group that is to be let go.
type release struct {
	groups.Key
	token int64
	next  *int64 // the row's session then; nil: it is given back
}

// A slot is of a queue that has a limit.
type slot struct {
	queue string
	n     int32
}

// An ask is what somebody wants of the session: a claim, or groups to be let go.
type ask struct {
	claim *Request
	free  []release
	slots []slot

	hold *Hold
	over bool // no slot was free
	err  error
	done chan struct{}
}

const (
	askRoom  = 256                   // asks of one round: more wait for the next
	owedRest = 10 * time.Millisecond // until it is tried again to let a group go
)

const (
	stmtKeepLock  = "pgfifo_keep_lock"
	stmtKeepClaim = "pgfifo_keep_claim"
	stmtKeepFree  = "pgfifo_keep_free"
	stmtKeepSlots = "pgfifo_keep_slots"
	stmtFreeSlots = "pgfifo_keep_slots_free"
)

// keep opens a session that holds groups.
func (d *Dialer) keep(ctx context.Context, lost func(error)) (*session, error) {
	conn, err := d.Connect(ctx)
	if err != nil {
		return nil, err
	}
	bounds := d.Session.WithDefaults()
	s := &session{
		conn: conn, number: 1 + rand.Int64N(1<<62), dialed: dials.Add(1), bounds: bounds,
		asks: make(chan *ask, askRoom), gone: make(chan struct{}), tell: lost,
	}
	// Claims are to be durable whatever the database's default is; as marks (mark.sql), on this server. The session is
	// idle between them, and its pulse keeps the server from ending it.
	const set = "SELECT pg_catalog.set_config('synchronous_commit', 'local', false), " +
		"pg_catalog.set_config('idle_session_timeout', $2, false), pg_catalog.pg_try_advisory_lock($1::bigint)"
	alone := false
	ms := fmt.Sprint(max(bounds.ServerSilence.Milliseconds(), 1))
	err = conn.QueryRow(ctx, set, s.number, ms).Scan(nil, nil, &alone)
	if err == nil && !alone {
		err = errors.New("somebody has its lock")
	}
	if err == nil {
		s.stmts, err = prepare(ctx, conn.PgConn(), d.Schema, map[string]string{
			stmtBegin: beginSQL, stmtCommit: commitSQL, stmtKeepLock: keepLockSQL, stmtKeepClaim: keepClaimSQL,
			stmtKeepFree: keepFreeSQL, stmtKeepSlots: keepSlotsSQL, stmtFreeSlots: keepSlotsFreeSQL,
		})
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("lease: session: %w", err)
	}
	go s.run()
	return s, nil
}

func (s *session) ended() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// end says that the session is given up.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.why = why
		close(s.gone)
		if why == errClosed { //nolint:errorlint // itself
			_ = s.conn.PgConn().Conn().SetDeadline(time.Now().Add(closeWait)) // of a round that is under way
			return
		}
		s.tell(why)
	})
}

// do asks, and waits for the answer.
func (s *session) do(a *ask) error {
	if s == nil {
		return errNoSession
	}
	a.done = make(chan struct{})
	select {
	case s.asks <- a:
	case <-s.gone:
		return s.lost()
	}
	select {
	case <-a.done:
		return a.err
	case <-s.gone:
		return s.lost()
	}
}

func (s *session) lost() error { return fmt.Errorf("%w: %w", ErrLost, s.why) }

// run answers asks until the session has ended. While nobody asks it tells the server that it lives.
func (s *session) run() {
	defer s.close()
	for {
		wait := s.bounds.Heartbeat / 2
		if len(s.owed)+len(s.owedSlots) > 0 && !s.balked {
			wait = min(wait, owedRest)
		}
		pulse := time.NewTimer(wait)
		select {
		case <-s.gone:
			pulse.Stop()
			return
		case a := <-s.asks:
			pulse.Stop()
			if err := s.answer(s.gather(a)); err != nil {
				s.end(err)
			}
		case <-pulse.C:
			if err := s.pay(); err != nil {
				s.end(err)
			}
		}
	}
}

// close ends the connection; politely, if there is no round under way, so that the server knows at once.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// pay lets go of what is owed, if anything, and tells the server that the worker lives.
func (s *session) pay() error {
	s.balked = false
	err := s.bounded(nil)
	if err != nil && Refused(err) {
		s.balked, err = true, nil
	}
	return err
}

// gather returns an ask with the others that wait.
func (s *session) gather(first *ask) []*ask {
	asks := []*ask{first}
	for len(asks) < askRoom {
		select {
		case a := <-s.asks:
			asks = append(asks, a)
		default:
			return asks
		}
	}
	return asks
}

// answer answers asks in one transaction, or, if the server refuses something of them, each in one of its own. An error
// is the connection's.
func (s *session) answer(asks []*ask) error {
	err := s.bounded(asks)
	refused := err != nil && Refused(err)
	switch {
	case refused && !s.balked && len(s.owed)+len(s.owedSlots) > 0:
		s.balked = true // these are tried by themselves, later
		return s.answer(asks)
	case refused && len(asks) > 1:
		for i := range asks {
			if err := s.answer(asks[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	case refused:
		s.balked = s.balked || len(asks[0].free)+len(asks[0].slots) > 0
		s.owed, s.owedSlots = append(s.owed, asks[0].free...), append(s.owedSlots, asks[0].slots...)
	}
	for _, a := range asks {
		a.err = err
		close(a.done)
	}
	if refused {
		err = nil
	}
	return err
}

// bounded is a round that the server has to answer in time.
func (s *session) bounded(asks []*ask) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.bounds.Silence)
	defer cancel()
	r := newRound(s, asks)
	if r.idle() {
		return s.conn.Ping(ctx)
	}
	err := r.run(ctx)
	if pg := s.conn.PgConn(); err != nil && !pg.IsClosed() && pg.TxStatus() != 'I' {
		if _, ended := pg.Exec(ctx, "ROLLBACK").ReadAll(); ended != nil {
			return ended
		}
	}
	return err
}

// A round is one transaction of the session.
type round struct {
	*session
	free    []release
	slots   []slot
	limited []*ask // claims that need a slot
	claims  []*ask // the others, and those that have got one
}

func newRound(s *session, asks []*ask) *round {
	r := &round{session: s}
	if !s.balked {
		r.free, r.slots = slices.Clone(s.owed), slices.Clone(s.owedSlots)
	}
	for _, a := range asks {
		a.hold, a.over = nil, false
		r.free, r.slots = append(r.free, a.free...), append(r.slots, a.slots...)
		switch {
		case a.claim == nil:
		case a.claim.Slot:
			r.limited = append(r.limited, a)
		default:
			r.claims = append(r.claims, a)
		}
	}
	return r
}

func (r *round) idle() bool { return len(r.free)+len(r.slots)+len(r.limited)+len(r.claims) == 0 }

func (r *round) run(ctx context.Context) error {
	pipeline := r.conn.PgConn().StartPipeline(ctx)
	err := r.send(pipeline)
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	return err
}

// send makes the transaction. Only who needs slots waits for an answer in the middle of it.
func (r *round) send(p *pgconn.Pipeline) error {
	p.SendQueryStatement(r.stmts[stmtBegin], nil, nil, nil)
	queues, sent := r.sendFirst(p)
	var taken map[string][]slot
	if len(queues) > 0 {
		err := p.Sync()
		if err == nil {
			err = r.readFirst(p, sent)
		}
		if err == nil {
			taken, err = r.readSlots(p, queues)
		}
		if err != nil {
			return err
		}
		sent = firsts{}
	}
	heads := r.sendClaims(p)
	p.SendQueryStatement(r.stmts[stmtCommit], nil, nil, nil)
	if err := p.Sync(); err != nil {
		return err
	}
	if len(queues) == 0 {
		if err := r.readFirst(p, sent); err != nil {
			return err
		}
	}
	if err := r.readClaims(p, heads); err != nil {
		return err
	}
	if _, err := readTag(p); err != nil { // COMMIT
		return err
	}
	r.giveSlots(taken)
	return nil
}

// firsts says what is sent before slots are asked for.
type firsts struct{ free, slots bool }

// sendFirst lets go of what is to be let go, and asks for the slots of limited queues, whose names it returns.
func (r *round) sendFirst(p *pgconn.Pipeline) (queues []string, sent firsts) {
	if sent.free = len(r.free) > 0; sent.free {
		var keys, tokens, next array
		var ids array
		for _, f := range r.free {
			keys.text(f.Queue)
			ids.text(f.GroupID)
			tokens.int(f.token)
			next.intOrNull(f.next)
		}
		args := [][]byte{keys.bytes(), ids.bytes(), tokens.bytes(), next.bytes(), appendInt(r.number)}
		p.SendQueryStatement(r.stmts[stmtKeepFree], args, nil, claimFormats)
	}
	if sent.slots = len(r.slots) > 0; sent.slots {
		var names, ns array
		for _, s := range r.slots {
			names.text(s.queue)
			ns.int(int64(s.n))
		}
		args := [][]byte{names.bytes(), ns.bytes(), appendInt(r.number)}
		p.SendQueryStatement(r.stmts[stmtFreeSlots], args, nil, nil)
	}
	wanted := make(map[string]int64)
	for _, a := range r.limited {
		if wanted[a.claim.Queue]++; wanted[a.claim.Queue] == 1 {
			queues = append(queues, a.claim.Queue)
		}
	}
	for _, q := range queues {
		args := [][]byte{[]byte(q), appendInt(wanted[q]), appendInt(r.number)}
		p.SendQueryStatement(r.stmts[stmtKeepSlots], args, nil, claimFormats)
	}
	return queues, sent
}

func (r *round) readFirst(p *pgconn.Pipeline, sent firsts) error {
	if _, err := readTag(p); err != nil { // BEGIN
		return err
	}
	if sent.free {
		var owed []release
		err := eachRow(p, func(row *rowReader) {
			if n := int(row.uint32()) - 1; n >= 0 && n < len(r.free) {
				owed = append(owed, r.free[n])
			}
		})
		if err != nil {
			return err
		}
		r.settle(owed)
	}
	if sent.slots {
		if _, err := readTag(p); err != nil {
			return err
		}
		if !r.balked {
			r.owedSlots = nil
		}
	}
	return nil
}

// settle says what is still owed of what was to be let go.
func (r *round) settle(owed []release) {
	if r.balked {
		owed = append(owed, r.owed...)
	}
	r.owed = owed
}

// readSlots gives the slots that were got to claims. The others have met the limit.
func (r *round) readSlots(p *pgconn.Pipeline, queues []string) (map[string][]slot, error) {
	taken := make(map[string][]slot)
	for _, q := range queues {
		err := eachRow(p, func(row *rowReader) { taken[q] = append(taken[q], slot{q, int32(row.uint32())}) })
		if err != nil {
			return nil, err
		}
	}
	if err := readSync(p); err != nil {
		return nil, err
	}
	got := make(map[string]int)
	for _, a := range r.limited {
		q := a.claim.Queue
		if a.over = got[q] == len(taken[q]); !a.over {
			got[q]++
			r.claims = append(r.claims, a)
		}
	}
	return taken, nil
}

// giveSlots says which holds have the slots that were taken. Those of claims that have missed are given back.
func (r *round) giveSlots(taken map[string][]slot) {
	for _, a := range r.claims {
		slots := taken[a.claim.Queue]
		if !a.claim.Slot || len(slots) == 0 {
			continue
		}
		taken[a.claim.Queue] = slots[1:]
		if a.hold != nil && a.hold.token != 0 {
			a.hold.slot = slots[0].n
		} else {
			r.owedSlots = append(r.owedSlots, slots[0])
		}
	}
}

// A wanted is one group of a claim.
type wanted struct {
	*ask
	Request
}

func (r *round) sendClaims(p *pgconn.Pipeline) (list []wanted) {
	for _, a := range r.claims {
		for _, one := range a.claim.all() {
			list = append(list, wanted{a, one})
		}
	}
	if len(list) == 0 {
		return nil
	}
	var queues, ids, floors array
	for _, w := range list {
		queues.text(w.Queue)
		ids.text(w.GroupID)
		floors.int(w.floor(r.dialed))
	}
	keys := [][]byte{queues.bytes(), ids.bytes()}
	p.SendQueryStatement(r.stmts[stmtKeepLock], keys, nil, claimFormats)
	p.SendQueryStatement(r.stmts[stmtKeepClaim],
		append(keys[:2:2], floors.bytes(), appendInt(maxBatchBytes), appendInt(r.number)), nil, claimFormats)
	return list
}

// readClaims makes the holds.
func (r *round) readClaims(p *pgconn.Pipeline, list []wanted) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := readTag(p); err != nil { // the locks
		return err
	}
	heads := make(map[*ask][]Held)
	err := eachRow(p, func(row *rowReader) {
		n := int(row.uint32()) - 1
		if n < 0 || n >= len(list) {
			row.fail("for group %d of %d", n+1, len(list))
			return
		}
		h := Held{Key: list[n].Key, N: list[n].N}
		h.scan(row, 0)
		h.Seen.Dialed = r.dialed
		h.More = row.bool()
		h.token = row.int64()
		heads[list[n].ask] = append(heads[list[n].ask], h)
	})
	if err != nil {
		return err
	}
	for a, held := range heads {
		a.hold = r.together(held)
	}
	return nil
}

// together makes a hold of a claim's heads. What is not to run with the others is given back, to be claimed by itself.
func (r *round) together(heads []Held) *Hold {
	hold := company(heads, 0)
	hold.claimed = nil
	for i := range heads {
		if h := &heads[i]; h.Seen.Alone {
			hold.Apart = append(hold.Apart, h.N)
			if h.token != 0 {
				r.owed = append(r.owed, release{Key: h.Key, token: h.token})
			}
		}
	}
	return hold
}

// readSync reads the answer to a Sync in the middle of a pipeline.
func readSync(p *pgconn.Pipeline) error {
	res, err := p.GetResults()
	if err != nil {
		return err
	}
	if _, ok := res.(*pgconn.PipelineSync); !ok {
		return fmt.Errorf("lease: unexpected answer %T", res)
	}
	return nil
}

// An array is a parameter in text format.
type array struct{ strings.Builder }

func (a *array) next() {
	if a.Len() == 0 {
		a.WriteByte('{')
	} else {
		a.WriteByte(',')
	}
}

func (a *array) text(s string) {
	a.next()
	quote(&a.Builder, s)
}

func (a *array) int(n int64) {
	a.next()
	fmt.Fprintf(a, "%d", n)
}

func (a *array) intOrNull(n *int64) {
	if n != nil {
		a.int(*n)
		return
	}
	a.next()
	a.WriteString("NULL")
}

func (a *array) bytes() []byte {
	if a.Len() == 0 {
		return []byte("{}")
	}
	return []byte(a.String() + "}")
}
