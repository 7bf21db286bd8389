package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Misses say how often one after the other the claim of a head was missed that nobody seems to run: somebody has locked
// the group's row who is no worker, say. So it is not tried all the time.
type misses struct {
	head  int64
	n     int
	until time.Time // it is left alone
}

func (m *misses) add(head int64) {
	if m.head != head {
		*m = misses{head: head}
	}
	m.n++ // a few may be chance
	m.until = time.Now().Add(rest.Nth(m.n-tuning.Few, tuning.Gap, tuning.Wait/2))
}

func (m *misses) leftAlone(head int64) bool { return m.head == head && time.Now().Before(m.until) }
