package torture

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
)

// A sinkWrite is a write that reached the sink.
type sinkWrite struct {
	at       int64
	token    int64
	job      int64
	proc     string
	group    int32
	attempt  int32
	accepted bool
}

// A hub is what processes talk to, on a socket file, which no partition cuts off. It is the other system that handlers
// write to: it refuses a token lower than the highest that it has seen for the group, or for the job where several of
// its group may run. And it says which messages a producer is to send.
type hub struct {
	listener net.Listener
	book     *journal
	batches  bool
	tickets  func() (from, count int64) // waits; a count of 0: no more

	mu      sync.Mutex
	highest map[int64]int64 // by holder
	writes  []sinkWrite
	// By process: groups whose slow handlers are between their two writes, and tokens.
	lingering map[string]map[int32]int64
	reading   map[string]map[int32]int64 // those of them with rows open
	conns     map[net.Conn]bool
	done      sync.WaitGroup
}

func newHub(path string, book *journal, batches bool, tickets func() (int64, int64)) (*hub, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	h := &hub{
		listener: l, book: book, batches: batches, tickets: tickets,
		highest: make(map[int64]int64), lingering: make(map[string]map[int32]int64),
		reading: make(map[string]map[int32]int64), conns: make(map[net.Conn]bool),
	}
	h.done.Go(h.accept)
	return h, nil
}

func (h *hub) accept() {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.conns[conn] = true
		h.mu.Unlock()
		h.done.Go(func() {
			defer func() {
				_ = conn.Close()
				h.mu.Lock()
				delete(h.conns, conn)
				h.mu.Unlock()
			}()
			for scan := bufio.NewScanner(conn); scan.Scan(); {
				if _, err := fmt.Fprintln(conn, h.answer(scan.Text())); err != nil {
					return
				}
			}
		})
	}
}

// answer answers one request.
func (h *hub) answer(request string) string {
	if request == "ticket" {
		from, count := h.tickets()
		return fmt.Sprint(from, " ", count)
	}
	w, phase := sinkWrite{}, ""
	if _, err := fmt.Sscanf(request, "write %s %d %d %d %d %s", &w.proc, &w.group, &w.job, &w.attempt, &w.token,
		&phase); err != nil {
		return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	if h.take(w, phase) {
		return "accepted"
	}
	return "refused"
}

// take accepts a write, or refuses it.
func (h *hub) take(w sinkWrite, phase string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.at = now()
	of := holder(w.group, w.job, h.batches)
	w.accepted = w.token >= h.highest[of]
	if w.accepted {
		h.highest[of] = w.token
	}
	h.writes = append(h.writes, w)
	h.book.line("%t %s %d %d %d %d", w.accepted, w.proc, w.group, w.job, w.attempt, w.token)
	switch phase {
	case phaseFirst:
		remember(h.lingering, &w)
	case phaseOpen:
		remember(h.lingering, &w)
		remember(h.reading, &w)
	case phaseSecond:
		for _, m := range []map[string]map[int32]int64{h.lingering, h.reading} {
			if m[w.proc][w.group] == w.token {
				delete(m[w.proc], w.group)
			}
		}
	}
	return w.accepted
}

// Which write of a handler it is. Between the first and the second it is in the middle of its job.
const (
	phaseOnce   = "once"
	phaseFirst  = "first"
	phaseOpen   = "open" // the first, with rows open
	phaseSecond = "second"
)

func remember(m map[string]map[int32]int64, w *sinkWrite) {
	if m[w.proc] == nil {
		m[w.proc] = make(map[int32]int64)
	}
	m[w.proc][w.group] = w.token
}

// held returns groups of the process whose slow handlers are between their two writes.
func (h *hub) held(proc string) []int32 { return h.groups(h.lingering, proc) }

// read returns those whose handlers have rows open meanwhile.
func (h *hub) read(proc string) []int32 { return h.groups(h.reading, proc) }

func (h *hub) groups(m map[string]map[int32]int64, proc string) []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(m[proc]))
}

// forget is told that a process has ended.
func (h *hub) forget(proc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.lingering, proc)
	delete(h.reading, proc)
}

// close ends all conversations.
func (h *hub) close() {
	_ = h.listener.Close()
	h.mu.Lock()
	for conn := range h.conns {
		_ = conn.Close()
	}
	h.mu.Unlock()
	h.done.Wait()
}

// A hubClient is a process's way to the hub. It is safe for concurrent use.
type hubClient struct {
	path string

	mu   sync.Mutex
	idle []*hubConn
}

type hubConn struct {
	net.Conn
	answers *bufio.Scanner
}

// ask sends a request and returns the answer.
func (c *hubClient) ask(request string) (string, error) {
	conn, err := c.take()
	if err != nil {
		return "", fmt.Errorf("hub: %w", err)
	}
	if _, err := fmt.Fprintln(conn, request); err != nil {
		_ = conn.Close()
		return "", fmt.Errorf("hub: %w", err)
	}
	if !conn.answers.Scan() {
		_ = conn.Close()
		return "", errors.Join(errors.New("hub: no answer"), conn.answers.Err())
	}
	answer := conn.answers.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
	if strings.HasPrefix(answer, "error ") {
		return "", errors.New("hub: " + answer)
	}
	return answer, nil
}

func (c *hubClient) take() (*hubConn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	conn, err := net.Dial("unix", c.path)
	if err != nil {
		return nil, err
	}
	return &hubConn{conn, bufio.NewScanner(conn)}, nil
}

// close ends the conversations.
func (c *hubClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	c.idle = nil
}

// write calls the sink, and reports whether it took the write.
func (c *hubClient) write(proc string, group int32, job int64, attempt int, token int64, phase string) (bool, error) {
	answer, err := c.ask(fmt.Sprint("write ", proc, " ", group, " ", job, " ", attempt, " ", token, " ", phase))
	return answer == "accepted", err
}

// ticket returns which messages to send; a count of 0: no more.
func (c *hubClient) ticket() (from, count int64, err error) {
	answer, err := c.ask("ticket")
	if err == nil {
		_, err = fmt.Sscan(answer, &from, &count)
	}
	return from, count, err
}
