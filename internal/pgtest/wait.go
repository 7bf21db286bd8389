package pgtest

import "time"

const (
	often  = 2 * time.Millisecond
	seldom = 20 * time.Millisecond
)

// Wait waits until a condition holds, and reports whether it did within the limit. The caller's goroutine asks: often
// at first, then less, so that a test loses a quarter of its wait at most. Most conditions are queries, and waits for
// them may take seconds beside tests that work.
func Wait(limit time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := often; !cond(); pause = min(pause*5/4, seldom) {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(pause)
	}
	return true
}
