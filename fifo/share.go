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
	shares, next, done := make([]string, len(ids)), 0, make(chan struct{})
	go untilReturned(func() {
		for next < len(ids) {
			i := next
			next++
			shares[i] = s.share(ids[i])
		}
	}, done)
	<-done
	return shares
}

// share is Share, or "" if that panics.
func (s *sharer) share(id string) (share string) {
	recovering("Share", func() { share = s.of(id) }, func(p *PanicError) {
		s.told.Do(func() {
			s.log.Error("pgfifo: Share panicked; such groups have share \"\"",
				"queue", s.queue, "group", id, "panic", p.Value, "stack", string(p.Stack))
		})
	})
	return share
}
