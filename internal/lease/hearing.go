package lease

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A hearing is a connection that knows when something has come from the server.
type hearing struct {
	net.Conn
	last atomic.Int64 // since epoch; 0: nothing has
}

func (h *hearing) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if n > 0 {
		h.last.Store(int64(time.Since(epoch)))
	}
	return n, err
}

// unless calls f once nothing has come for so long from now on, until it is stopped.
func (h *hearing) unless(silence time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	begun := int64(time.Since(epoch))
	go func() {
		for wait := silence; pause.For(ctx, wait) == nil; {
			since := max(begun, h.last.Load())
			if wait = silence - (time.Since(epoch) - time.Duration(since)); wait <= 0 {
				f()
				return
			}
		}
	}()
	return cancel
}
