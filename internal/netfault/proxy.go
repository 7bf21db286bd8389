package netfault

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy forwards connections to a PostgreSQL server, until told to do otherwise. It reads what the server answers, so
// it speaks plain TCP only (sslmode=disable) and refuses encryption; passwords pass through. Its methods are safe for
// concurrent use.
type Proxy struct {
	target   string
	listener *net.TCPListener
	latency  atomic.Int64
	drops    [2]atomic.Bool
	commits  loss
	replies  loss
	running  sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	closed bool
}

// NewProxy listens on a port of 127.0.0.1, and forwards to target, a host and port.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("netfault: proxy: %w", err)
	}
	p := &Proxy{target: target, listener: l, links: make(map[*link]bool)}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the host and port to connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Latency has everything from now on arrive so much later, in each direction; nothing overtakes what came before it.
func (p *Proxy) Latency(d time.Duration) { p.latency.Store(int64(d)) }

// Reset ends every connection with RST, to both sides, and returns how many there were.
func (p *Proxy) Reset() int {
	n := 0
	for _, l := range p.current() {
		if l.reset() {
			n++
		}
	}
	return n
}

// Drop swallows what goes in one direction, the end of a connection included, while all sockets stay open. Switched
// off, it resets the connections that have lost something: they could not make sense of what comes next.
func (p *Proxy) Drop(dir Direction, on bool) {
	p.drops[dir].Store(on)
	if on {
		return
	}
	for _, l := range p.current() {
		if l.isDamaged(dir) {
			l.reset()
		}
	}
}

// LoseCommits has the answers to the next n COMMITs lost, of any connection, COMMIT AND CHAIN included: the server has
// committed, and the client's connection is reset before it hears of it. A COMMIT that the server answers with
// ROLLBACK, or with an error, is not one. What was not lost of an earlier call is forgotten.
func (p *Proxy) LoseCommits(n int) { p.commits.begin(n, aCommit) }

// LostCommits returns how many answers LoseCommits has lost so far.
func (p *Proxy) LostCommits() int { return p.commits.count() }

// LoseReplies is LoseCommits for statements that commit by themselves: the next n in whose answers a pattern is found,
// in a row or in a tag. In an open transaction they are answered. Nothing of the answer arrives, no rows either.
func (p *Proxy) LoseReplies(n int, pattern string) { p.replies.begin(n, fmt.Sprintf(aReply, pattern)) }

// LostReplies returns how many answers LoseReplies has lost so far.
func (p *Proxy) LostReplies() int { return p.replies.count() }

// lose returns what arrives of what the server says, and what becomes of the connection then.
func (p *Proxy) lose(said []byte) (arrives []byte, then end) {
	for _, l := range []*loss{&p.commits, &p.replies} {
		if arrives, lost := l.take(said); lost {
			return arrives, rst
		}
	}
	return said, goesOn
}

// Close resets all connections and takes no more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Reset()
	p.running.Wait()
	return err
}

func (p *Proxy) current() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files, say: the next one may fare better
			time.Sleep(10 * time.Millisecond)
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	conn, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		hardClose(client)
		return
	}
	l := newLink(p, client, conn.(*net.TCPConn))
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.links[l] = true
	}
	p.mu.Unlock()
	if closed {
		l.reset()
		return
	}
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// hardClose ends a connection with RST instead of FIN.
func hardClose(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // it may be gone already, which is as good
	_ = conn.Close()
}
