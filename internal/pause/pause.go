// Package pause waits for a while, or until there is no reason to any more.
package pause

import (
	"context"
	"time"
)

// For waits for d, or returns why ctx ended before that.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
