package lease

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A stream is a worker's connection. It follows in the PostgreSQL protocol whose turn it is to speak. It stands between
// pgx and the socket, above TLS, so it knows of every use that a handler makes of the connection, that of the raw
// PgConn too.
//
// In the server's turn a statement runs, or its results are on their way; a lane's socket watches that. In the worker's
// turn idle_in_transaction_session_timeout runs, so heartbeats are sent, which pgx does not see. Readers and writers
// wait for a heartbeat under way.
type stream struct {
	net.Conn
	socket syscall.RawConn // below TLS; nil: it cannot be looked at
	tcp    bool
	pid    int32                  // of the server's process; 0: a pooler shares the session, and nobody knows it
	heard  atomic.Pointer[func()] // is told when something has come from the server; or nil

	mu      sync.Mutex
	free    sync.Cond
	beating bool      // a heartbeat has what follows to itself
	out, in frames    // what pgx sends, and what the server sends
	owed    int       // ReadyForQuery messages that are still to be read, for what pgx has sent
	asked   time.Time // when the server began to owe an answer, the last time
	idle    time.Time // what asked was when the session was last found idle, with that answer owed
	series  bool      // messages have been sent whose Sync has not
	reading int       // calls of Read that wait
	kept    []byte    // read by a heartbeat, for the next call of Read
	readBy  time.Time
	writeBy time.Time
	alive   time.Time // the latest moment at which the server was surely not waiting for the worker
	taken   int       // bytes read since then

	spoil             // by statements, whoever sends them
	late  atomic.Bool // a cancel request may be on its way
}

// cancelledLate says that a request is on its way which may still cancel what runs when it comes. That must be no other
// job's, so the connection goes on to none.
func (s *stream) cancelledLate() {
	s.late.Store(true)
	s.spoiled.Store(true)
}

// lookAhead is how much of an answer a heartbeat reads for a handler that leaves it in the socket: not much beside what
// a lane may have in memory anyway.
const lookAhead = maxBatchBytes / 16

// errNotWatched is returned where a stream is not what pgx reads from and writes to.
var errNotWatched = errors.New("lease: a BeforeConnect that sets AfterNetConnect must call the one that was there")

func newStream(conn net.Conn) *stream {
	s := &stream{Conn: conn, alive: time.Now()}
	s.free.L = &s.mu
	s.out.n, s.owed = 1, 1 // the startup message has no type, and ReadyForQuery answers it
	for {
		c, ok := conn.(interface{ NetConn() net.Conn }) // TLS
		if !ok {
			break
		}
		conn = c.NetConn()
	}
	_, s.tcp = conn.(*net.TCPConn)
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			s.socket = raw
		}
	}
	return s
}

// ended reports whether the server, or the network, has ended the connection, as far as the socket knows. It reads
// nothing.
func (s *stream) ended() bool { return s.socket != nil && hungUp(s.socket) }

func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.beating {
			s.free.Wait()
		}
		if len(s.kept) > 0 {
			n := copy(b, s.kept)
			if s.kept = s.kept[n:]; len(s.kept) == 0 {
				s.kept = nil
			}
			return n, nil
		}
		s.reading++
		s.mu.Unlock()
		n, err := s.Conn.Read(b)
		s.mu.Lock()
		s.reading--
		s.hear(b[:n])
		if !s.beating {
			return n, err
		}
		s.free.Broadcast()
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) { // else it was the heartbeat's
			return n, err
		}
	}
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	for s.beating {
		s.free.Wait()
	}
	s.say(b)
	s.mu.Unlock()
	return s.Conn.Write(b)
}

func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// A heartbeat has no deadline but that of its caller, and sets these when it is over.

func (s *stream) SetReadDeadline(t time.Time) error {
	return s.setBy(&s.readBy, t, s.Conn.SetReadDeadline)
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	return s.setBy(&s.writeBy, t, s.Conn.SetWriteDeadline)
}

func (s *stream) setBy(by *time.Time, t time.Time, set func(time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*by = t
	if s.beating {
		return nil
	}
	return set(t)
}

// say follows what pgx sends. A server that has been sent a message of the extended protocol waits for Sync, and it
// does so without any timeout: it is the server's turn from the first of them on.
func (s *stream) say(b []byte) {
	for len(b) > 0 {
		n, kind := s.out.step(b)
		if kind == 'Q' || kind == 'P' {
			s.inspect(b[:n], kind)
		}
		b = b[n:]
		switch kind {
		case 'Q', 'F':
			s.owe()
		case 'P', 'B', 'D', 'E', 'C', 'H', 'S':
			if !s.series {
				s.owe()
			}
			s.series = kind != 'S'
		}
	}
}

func (s *stream) owe() {
	if s.owed == 0 {
		s.live()
		s.asked = s.alive
	}
	s.owed++
}

// hear follows what the server sends.
func (s *stream) hear(b []byte) {
	if heard := s.heard.Load(); heard != nil && len(b) > 0 {
		(*heard)()
	}
	s.taken += len(b)
	for len(b) > 0 {
		n, kind := s.in.step(b)
		b = b[n:]
		if kind == 'Z' && s.owed > 0 {
			s.owed--
		}
	}
}

func (s *stream) live() { s.alive, s.taken = time.Now(), 0 }

// A standing is what a heartbeat found.
type standing struct {
	alive  time.Time // the latest moment at which the server was surely not waiting for the worker
	unsure bool      // it is not known whether it is now
	moved  bool      // much has come from it since
}

// beat sends a heartbeat and waits for the answer, if it is the worker's turn, and tells how things stand otherwise.
// The caller bounds it by closing the connection.
func (s *stream) beat() (standing, error) {
	s.mu.Lock()
	if s.reading > 0 && s.owed > 0 {
		s.live() // somebody waits for the server, and has read all that there was
	}
	if s.reading > 0 && s.owed > 0 || s.out.n > 0 || s.beating {
		defer s.mu.Unlock()
		return s.stands(), nil
	}
	s.beating = true
	s.interrupt()
	_ = s.Conn.SetDeadline(time.Time{})
	owed := s.owed > 0
	s.mu.Unlock()
	if owed {
		owed = s.readAhead()
	}
	var err error
	if !owed {
		err = s.ping()
	}
	s.mu.Lock()
	defer s.free.Broadcast()
	defer s.mu.Unlock()
	s.beating = false
	_ = s.Conn.SetReadDeadline(s.readBy)
	_ = s.Conn.SetWriteDeadline(s.writeBy)
	if !owed {
		s.live()
	}
	return s.stands(), err
}

// interrupt makes readers wait until the heartbeat is over; then they begin again. In the worker's turn pgx may be
// reading, too: for a notification, or in the background, which it begins if a write takes long, and ends with what
// comes next.
func (s *stream) interrupt() {
	if s.reading == 0 {
		return
	}
	_ = s.Conn.SetReadDeadline(time.Unix(1, 0))
	for s.reading > 0 {
		s.free.Wait()
	}
}

func (s *stream) stands() standing {
	return standing{s.alive, s.owed > 0 && s.reading == 0, s.taken >= lookAhead}
}

// affirm says that the server was not waiting for the worker at a time.
func (s *stream) affirm(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.alive) {
		s.alive, s.taken = at, 0
	}
}

// readAhead reads what has come of the server's answer, and reports whether there is more to come.
func (s *stream) readAhead() (owed bool) {
	_ = s.Conn.SetReadDeadline(time.Now().Add(tuning.Rest))
	defer s.Conn.SetReadDeadline(time.Time{}) //nolint:errcheck // the next to read finds out
	buf := make([]byte, 32<<10)
	for owed = true; owed && len(s.kept) < lookAhead; {
		n, err := s.Conn.Read(buf)
		s.buffer(buf[:n])
		s.mu.Lock()
		owed = s.owed > 0
		s.mu.Unlock()
		if err != nil { // too late; or the next to read meets it, too
			break
		}
	}
	return owed
}

// buffer keeps what was read beside an answer to a heartbeat for the next call of Read.
func (s *stream) buffer(b []byte) {
	s.mu.Lock()
	s.hear(b)
	s.mu.Unlock()
	s.kept = append(s.kept, b...)
}

// heartbeat is an empty query. It works in an aborted transaction, too.
var heartbeat = func() []byte {
	const sql = "-- heartbeat\x00"
	return append(binary.BigEndian.AppendUint32([]byte{'Q'}, 4+uint32(len(sql))), sql...)
}()

var errRefused = errors.New("lease: the server refused a heartbeat")

// ping sends a heartbeat and reads its answer. What comes beside that is kept.
func (s *stream) ping() error {
	if _, err := s.Conn.Write(heartbeat); err != nil {
		return err
	}
	var refused error
	var answer []byte
	buf := make([]byte, 1<<10)
	for {
		n, err := s.Conn.Read(buf)
		b := buf[:n]
		for s.in.n > 0 && len(b) > 0 { // pgx has read the beginning of a message
			k := min(s.in.left(), len(b))
			s.buffer(b[:k])
			b = b[k:]
		}
		answer = append(answer, b...)
		for len(answer) >= headSize {
			size := 1 + int(binary.BigEndian.Uint32(answer[1:]))
			if len(answer) < size {
				break
			}
			msg := answer[:size]
			answer = answer[size:]
			switch msg[0] {
			case 'I':
			case 'Z':
				s.buffer(answer)
				return refused
			case 'E':
				refused = errRefused
				s.buffer(msg)
			default:
				s.buffer(msg)
			}
		}
		if err != nil {
			return errors.Join(refused, err)
		}
	}
}

// unless calls f when nothing has come for that long, until it is stopped. If a Read is under way when it is stopped, f
// may be called all the same.
func (s *stream) unless(silence time.Duration, f func()) (stop func()) {
	late := time.AfterFunc(silence, sync.OnceFunc(f))
	heard := func() { late.Reset(silence) }
	s.heard.Store(&heard)
	return func() {
		s.heard.Store(nil)
		late.Stop()
	}
}
