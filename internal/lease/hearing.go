package lease

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A hearing is a connection that tells when something has come from the server.
type hearing struct {
	net.Conn
	stream *stream                // the same
	pid    uint32                 // of the server's process; 0: not known
	heard  atomic.Pointer[func()] // is told; or nil
}

func newHearing(conn net.Conn) *hearing {
	s := newStream(conn)
	return &hearing{Conn: s, stream: s}
}

func (h *hearing) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if heard := h.heard.Load(); heard != nil && n > 0 {
		(*heard)()
	}
	return n, err
}

// unless calls f once nothing has come for so long from now on, until it is stopped. A Read that is under way then may
// have it called all the same.
func (h *hearing) unless(silence time.Duration, f func()) (stop func()) {
	late := time.AfterFunc(silence, sync.OnceFunc(f))
	heard := func() { late.Reset(silence) }
	h.heard.Store(&heard)
	return func() {
		h.heard.Store(nil)
		late.Stop()
	}
}
