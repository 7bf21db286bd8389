package migrations

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/internal/schema"
)

const (
	defaultLockTimeout = 2 * time.Second
	defaultLockTries   = 10
)

// lockSetting returns a value of the server's setting lock_timeout: milliseconds, of which 0 are no limit.
func lockSetting(timeout time.Duration) string {
	if timeout < 0 {
		return "0"
	}
	// Rounded up, lest half a millisecond become none, and with it no limit.
	ms := (int64(timeout-1) / int64(time.Millisecond)) + 1
	return strconv.FormatInt(min(ms, math.MaxInt32), 10)
}

func parse(name string) (schema.Name, error) {
	n, err := schema.Parse(name)
	if err != nil {
		return n, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	return n, nil
}
