// Package rest says how long something is left alone before it is tried again.
package rest

import "time"

// Nth returns how long the nth rest is, of which each is twice as long as the one before, up to most. None is before
// the first.
func Nth(n int, first, most time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	return min(first<<min(n-1, 20), most)
}
