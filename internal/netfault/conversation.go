package netfault

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A plot is which answers are to be lost, of whichever connection gets them first.
type plot struct {
	mu      sync.Mutex
	commits int
	replies int
	text    string // of the statements whose replies are to be lost

	lostCommits, lostReplies atomic.Int64
}

func (p *plot) loseCommits(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = n
}

func (p *plot) loseReplies(n int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies, p.text = n, text
}

// takeCommit reports whether the answer to this COMMIT is to be lost.
func (p *plot) takeCommit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commits == 0 {
		return false
	}
	p.commits--
	p.lostCommits.Add(1)
	return true
}

// takeReply reserves the loss of the answer to these statements, if it is to be lost.
func (p *plot) takeReply(texts []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replies == 0 || !slices.ContainsFunc(texts, func(sql string) bool { return strings.Contains(sql, p.text) }) {
		return false
	}
	p.replies--
	return true
}

// settleReply says what became of a reserved one.
func (p *plot) settleReply(lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost {
		p.lostReplies.Add(1)
	} else {
		p.replies++
	}
}

// A conversation follows what a client and its server say to each other, as far as the plot needs it. A COMMIT is known
// by the server's answer, whose tag is COMMIT in the simple and the extended protocol, and only if it did commit; what
// answers a statement that commits by itself, by the order of the exchanges.
type conversation struct {
	plot *plot

	mu         sync.Mutex
	statements map[string]string // prepared ones' texts, by name
	portals    map[string]string
	texts      []string    // of the exchange that the client is at
	exchanges  []*exchange // that the server has still to answer
}

// An exchange is what a client says up to Sync, or in one simple query, and the server answers up to ReadyForQuery.
type exchange struct {
	lose   bool // the answer is to be lost, if it is a success
	failed bool
}

func newConversation(p *plot) *conversation {
	return &conversation{plot: p, statements: make(map[string]string), portals: make(map[string]string)}
}

// readClient passes on what a client says, whole messages at a time. It ends with the error of reading, or with none if
// send does not take more.
func (c *conversation) readClient(client io.ReadWriter, send func([]byte, end) bool) error {
	r := newReader(client)
	start, err := r.startup()
	for err == nil && asksForEncryption(start) {
		if _, err = client.Write([]byte{'N'}); err == nil {
			start, err = r.startup()
		}
	}
	if err != nil || !send(start, goesOn) {
		return err
	}
	var out []byte
	return r.each(func(m message) (enough bool, err error) {
		if err := c.said(m); err != nil {
			return false, err
		}
		out = append(out, m...)
		if r.idle() {
			enough, out = !send(out, goesOn), nil
		}
		return enough, nil
	})
}

// asksForEncryption reports whether a client's first message is SSLRequest or GSSENCRequest.
func asksForEncryption(m message) bool {
	code := binary.BigEndian.Uint32(m[4:])
	return code == 80877103 || code == 80877104
}

// readServer passes on what a server says, and loses what is to be lost.
func (c *conversation) readServer(server io.Reader, send func([]byte, end) bool) error {
	r := newReader(server)
	var out, held []byte
	err := r.each(func(m message) (enough bool, err error) {
		holding, lost, err := c.answered(m)
		if err != nil {
			return false, err
		}
		if lost {
			return !send(out, rst), nil
		}
		held = append(held, m...)
		if !holding {
			out, held = append(out, held...), held[:0]
		}
		if r.idle() && len(out) > 0 {
			enough, out = !send(out, goesOn), nil
		}
		return enough, nil
	})
	if c.abandon(); len(held) > 0 { // the server has died
		send(held, goesOn)
	}
	return err
}

// abandon gives back what was reserved for exchanges that will not be answered.
func (c *conversation) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.exchanges {
		if x.lose {
			c.plot.settleReply(false)
		}
	}
	c.exchanges = nil
}

// said takes down a client's message.
func (c *conversation) said(m message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.kind() {
	case 'P':
		var parse pgproto3.Parse
		if err := parse.Decode(m.body()); err != nil {
			return err
		}
		c.statements[parse.Name] = parse.Query
	case 'B':
		var bind pgproto3.Bind
		if err := bind.Decode(m.body()); err != nil {
			return err
		}
		c.portals[bind.DestinationPortal] = c.statements[bind.PreparedStatement]
	case 'E':
		var execute pgproto3.Execute
		if err := execute.Decode(m.body()); err != nil {
			return err
		}
		c.texts = append(c.texts, c.portals[execute.Portal])
	case 'Q':
		var query pgproto3.Query
		if err := query.Decode(m.body()); err != nil {
			return err
		}
		c.texts = append(c.texts, query.String)
		c.exchange()
	case 'S', 'F': // Sync, and a function call of old
		c.exchange()
	}
	return nil
}

func (c *conversation) exchange() {
	c.exchanges = append(c.exchanges, &exchange{lose: c.plot.takeReply(c.texts)})
	clear(c.texts)
	c.texts = c.texts[:0]
}

// answered takes down a server's message. It reports whether that is to wait for the end of its exchange, and whether
// it, and what waits, are to be lost.
func (c *conversation) answered(m message) (holding, lost bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var x *exchange
	if len(c.exchanges) > 0 {
		x = c.exchanges[0]
	}
	switch m.kind() {
	case 'C':
		var complete pgproto3.CommandComplete
		if err := complete.Decode(m.body()); err != nil {
			return false, false, err
		}
		if string(complete.CommandTag) == "COMMIT" && c.plot.takeCommit() {
			return false, true, nil
		}
	case 'E':
		if x != nil {
			x.failed = true
		}
	case 'Z':
		var ready pgproto3.ReadyForQuery
		if err := ready.Decode(m.body()); err != nil {
			return false, false, err
		}
		if x == nil { // the end of the start
			return false, false, nil
		}
		c.exchanges = c.exchanges[1:]
		if !x.lose {
			return false, false, nil
		}
		lost := !x.failed && ready.TxStatus == 'I'
		c.plot.settleReply(lost)
		return false, lost, nil
	}
	return x != nil && x.lose, false, nil
}
