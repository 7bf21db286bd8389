package torture

import (
	"net"
	"net/rpc"
	"sync"
)

// A sinkWrite is a write that reached the sink.
type sinkWrite struct {
	at       int64
	token    int64
	job      int64
	group    int32
	attempt  int32
	accepted bool
}

// A hub is what processes call, on a socket file, which no partition cuts off. It is the other system that handlers
// write to: it refuses a token lower than the highest that it has seen for the group, or for the job where several of
// its group may run. And it says which messages a producer is to send.
type hub struct {
	listener net.Listener
	tickets  func() (from, count int64) // waits; a count of 0: no more

	mu      sync.Mutex
	highest map[int64]int64 // by holder
	writes  []sinkWrite
	between map[string]map[int32]Call // by process and group: slow handlers between their two writes
	conns   []net.Conn
	done    sync.WaitGroup
}

// hubName is that of the hub among net/rpc's services.
const hubName = "Hub"

func newHub(path string, tickets func() (int64, int64)) (*hub, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	h := &hub{
		listener: l, tickets: tickets, highest: make(map[int64]int64), between: make(map[string]map[int32]Call),
	}
	server := rpc.NewServer()
	if err := server.RegisterName(hubName, h); err != nil {
		return nil, err
	}
	h.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns = append(h.conns, conn)
			h.mu.Unlock()
			h.done.Go(func() { server.ServeConn(conn) })
		}
	})
	return h, nil
}

// A Call is a handler's call of the sink.
type Call struct {
	Proc       string
	Group      int32
	Job, Token int64
	Attempt    int
	Phase      string
}

// Which write of a handler it is. Between the first and the second it is in the middle of its job.
const (
	phaseOnce   = "once"
	phaseFirst  = "first"
	phaseOpen   = "open" // the first, with rows open
	phaseSecond = "second"
)

// Write accepts a write, or refuses it.
func (h *hub) Write(c Call, accepted *bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := holder(c.Group, c.Job)
	if *accepted = c.Token >= h.highest[of]; *accepted {
		h.highest[of] = c.Token
	}
	h.writes = append(h.writes, sinkWrite{now(), c.Token, c.Job, c.Group, int32(c.Attempt), *accepted})
	if h.between[c.Proc] == nil {
		h.between[c.Proc] = make(map[int32]Call)
	}
	switch {
	case c.Phase == phaseFirst, c.Phase == phaseOpen:
		h.between[c.Proc][c.Group] = c
	case c.Phase == phaseSecond && h.between[c.Proc][c.Group].Token == c.Token:
		delete(h.between[c.Proc], c.Group)
	}
	return nil
}

// A Ticket says which messages a producer is to send; a Count of 0: no more.
type Ticket struct{ From, Count int64 }

// Ticket gives one, when there is something to send.
func (h *hub) Ticket(_ string, t *Ticket) error {
	t.From, t.Count = h.tickets()
	return nil
}

// held returns groups of the process whose slow handlers are between their two writes, or those of them whose handlers
// have rows open meanwhile.
func (h *hub) held(proc string, open bool) (groups []int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for group, c := range h.between[proc] {
		if c.Phase == phaseOpen || !open {
			groups = append(groups, group)
		}
	}
	return groups
}

// forget is told that a process has ended.
func (h *hub) forget(proc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.between, proc)
}

// close ends all conversations.
func (h *hub) close() {
	_ = h.listener.Close()
	h.mu.Lock()
	for _, conn := range h.conns {
		_ = conn.Close()
	}
	h.mu.Unlock()
	h.done.Wait()
}
