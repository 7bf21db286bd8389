package lease

import (
	"sync"
	"time"
)

// unless calls f once nothing has come for so long from now on, until it is stopped. A Read that is under way then may
// have it called all the same.
func (s *stream) unless(silence time.Duration, f func()) (stop func()) {
	late := time.AfterFunc(silence, sync.OnceFunc(f))
	heard := func() { late.Reset(silence) }
	s.heard.Store(&heard)
	return func() {
		s.heard.Store(nil)
		late.Stop()
	}
}
