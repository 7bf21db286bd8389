package schedule

import "time"

// Misses say how often one after the other the claim of a head was missed that nobody seems to run: somebody has locked
// the group's row who is no worker, say. So it is not tried all the time.
type misses struct {
	head  int64
	n     int
	until time.Time // it is left alone
}

const (
	freeMisses   = 3
	missRestMost = 512 * time.Millisecond
)

func (m *misses) add(head int64) {
	if m.head != head {
		*m = misses{head: head}
	}
	if m.n++; m.n > freeMisses {
		m.until = time.Now().Add(min(time.Millisecond<<min(m.n-freeMisses, 20), missRestMost))
	}
}

func (m *misses) rests(head int64) bool { return m.head == head && time.Now().Before(m.until) }
