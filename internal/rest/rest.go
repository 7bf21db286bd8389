// Package rest says how long something is left alone before it is tried again.
package rest

import "time"

// Nth returns how long the nth rest is, of which each is twice as long as the one before, up to most. None is before
// the first.
func Nth(n int, first, most time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	d := first
	for ; n > 1 && d > 0 && d < most; n-- {
		d += min(d, most-d) // twice, without overflow
	}
	return min(d, most)
}
