package netfault

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// A link is one client's connection and the one to the server that goes with it.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	server *net.TCPConn
	done   chan struct{} // closed by reset

	mu      sync.Mutex
	damaged [2]bool // something was swallowed
	ended   bool
}

// A chunk is what was read at once and is to be written after a while.
type chunk struct {
	due   time.Time
	bytes []byte
	end   end
}

// An end is what becomes of the connection behind a chunk.
type end int

const (
	goesOn end = iota
	fin        // the reader's side has closed
	rst        // a fault
)

const (
	readAtOnce = 32 << 10
	// queued bounds how many chunks may be under way; who reads too fast waits.
	queued = 1024
)

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	return &link{proxy: p, client: client, server: server, done: make(chan struct{})}
}

// run forwards both ways until both have ended.
func (l *link) run() {
	var both sync.WaitGroup
	for _, dir := range []Direction{ToServer, ToClient} {
		queue := make(chan chunk, queued)
		both.Go(func() { l.read(dir, queue) })
		both.Go(func() { l.write(dir, queue) })
	}
	both.Wait()
	l.close(func(conn *net.TCPConn) { _ = conn.Close() })
}

var errGivenUp = errors.New("netfault: somebody has given up")

func (l *link) read(dir Direction, queue chan<- chunk) {
	defer close(queue)
	send := func(bytes []byte, end end) error {
		select {
		case queue <- chunk{time.Now().Add(time.Duration(l.proxy.latency.Load())), bytes, end}:
			if end == goesOn {
				return nil
			}
		case <-l.done:
		}
		return errGivenUp
	}
	var err error
	from := l.server
	if dir == ToServer {
		from = l.client
		err = l.start(send)
	}
	for buffer := make([]byte, readAtOnce); err == nil; {
		var n int
		if n, err = from.Read(buffer); err != nil {
			break
		}
		bytes, end := slices.Clone(buffer[:n]), goesOn
		if dir == ToClient {
			bytes, end = l.proxy.lose(bytes)
		}
		err = send(bytes, end)
	}
	switch {
	case errors.Is(err, errGivenUp):
	case errors.Is(err, io.EOF):
		_ = send(nil, fin)
	default:
		_ = send(nil, rst)
	}
}

// start passes on how a client begins: a length and a code. Encryption it refuses, through which nobody could read.
func (l *link) start(send func([]byte, end) error) error {
	const sslRequest, gssEncRequest = 80877103, 80877104
	for begin := make([]byte, 8); ; {
		if _, err := io.ReadFull(l.client, begin); err != nil {
			return err
		}
		if code := binary.BigEndian.Uint32(begin[4:]); code != sslRequest && code != gssEncRequest {
			return send(begin, goesOn)
		}
		if _, err := l.client.Write([]byte{'N'}); err != nil {
			return err
		}
	}
}

func (l *link) write(dir Direction, queue <-chan chunk) {
	to := l.server
	if dir == ToClient {
		to = l.client
	}
	for c := range queue {
		if !l.pause(time.Until(c.due)) {
			return
		}
		if c.end == rst {
			if len(c.bytes) > 0 && !l.swallow(dir) {
				_, _ = to.Write(c.bytes)
			}
			l.reset()
			return
		}
		if l.swallow(dir) {
			continue
		}
		var err error
		if len(c.bytes) > 0 {
			_, err = to.Write(c.bytes)
		}
		if c.end == fin {
			err = to.CloseWrite()
		}
		if err != nil {
			l.reset()
			return
		}
	}
}

// pause waits, and reports whether the link is still there.
func (l *link) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.done:
		return false
	}
}

// swallow reports whether what goes in this direction is lost now.
func (l *link) swallow(dir Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.proxy.drops[dir].Load()
	l.damaged[dir] = l.damaged[dir] || lost
	return l.damaged[dir] // once a byte is missing, nothing may follow it
}

func (l *link) isDamaged(dir Direction) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damaged[dir]
}

// reset ends the link with RST to both sides, and reports whether that was still to be done.
func (l *link) reset() bool { return l.close(hardClose) }

func (l *link) close(how func(*net.TCPConn)) bool {
	l.mu.Lock()
	ended := l.ended
	l.ended = true
	l.mu.Unlock()
	if ended {
		return false
	}
	close(l.done)
	how(l.client)
	how(l.server)
	return true
}
