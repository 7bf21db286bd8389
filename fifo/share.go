package fifo

import (
	"log/slog"
	"sync"
)

// A sharer asks a Queue's Share.
type sharer struct {
	queue string
	of    func(groupID string) string
	log   *slog.Logger
	told  sync.Once
}

// shares returns the shares of groups. It has one goroutine for all of them, and another one if Share ends that.
func (s *sharer) shares(ids []string) []string {
	shares := make([]string, len(ids))
	for next := 0; next < len(ids); {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for next < len(ids) {
				i := next
				next++
				shares[i] = s.share(ids[i])
			}
		}()
		<-done
	}
	return shares
}

// share is Share, or "" if that panics.
func (s *sharer) share(id string) (share string) {
	returned := false
	defer func() {
		if returned {
			return
		}
		p := newPanicError("Share", recover())
		s.told.Do(func() {
			s.log.Error("pgfifo: Share panicked; such groups have share \"\"",
				"queue", s.queue, "group", id, "panic", p.Value, "stack", string(p.Stack))
		})
	}()
	share = s.of(id)
	returned = true
	return share
}
