package groups

import (
	"strings"
	"sync"
	"time"
)

// What a worker knows, its claims need not ask: half the cost of claim.sql is setting it up, and its two side questions
// are a seventh of that. How many jobs wait behind a head is counted once for every 16 (Turn.ahead). Whether anything in
// a queue is paused is asked by one lane for all, twice every pauseTrust, as long as the answer is no.

const (
	// pauseTrust is how long a queue without pauses is taken to stay so.
	pauseTrust = 20 * time.Millisecond
	// pauseWait is how long Pause waits after its commit, so that no claim that began after it returned trusted an older
	// answer.
	pauseWait = 50 * time.Millisecond
)

// pauseWatch remembers when queues were last seen without a pause.
type pauseWatch struct {
	mu    sync.Mutex
	seen  map[string]time.Time
	asked map[string]time.Time
}

func newPauseWatch() *pauseWatch {
	return &pauseWatch{seen: make(map[string]time.Time), asked: make(map[string]time.Time)}
}

// trusts reports whether the queue was without pauses just now, and whether the caller is to ask again.
func (w *pauseWatch) trusts(queue string, now time.Time) (trusted, ask bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	age := now.Sub(w.seen[queue])
	if ask = age > pauseTrust/2 && now.Sub(w.asked[queue]) > pauseTrust/2; ask {
		w.asked[queue] = now
	}
	return age < pauseTrust, ask
}

// saw enters an answer to a question that was sent at the given time.
func (w *pauseWatch) saw(queue string, paused bool, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case paused:
		delete(w.seen, queue)
	case sent.After(w.seen[queue]):
		w.seen[queue] = sent
	}
}

// What claims are without the columns that a worker may know.
var (
	claimKnownSQL      = withoutKnown(claimSQL)
	claimBatchKnownSQL = withoutKnown(claimBatchSQL)
)

func withoutKnown(sql string) string {
	var kept []string
	for line := range strings.SplitSeq(sql, "\n") {
		if !strings.HasSuffix(line, "-- known") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
