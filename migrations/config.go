package migrations

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/internal/schema"
)

const defaultLockTimeout = 5 * time.Second

// name returns the schema that c, which may be nil, names.
func (c *Config) name() (schema.Name, error) {
	if c == nil {
		return schema.Name{}, nil
	}
	return parse(c.Schema)
}

// lockTimeout returns a value of the server's setting lock_timeout: milliseconds, of which 0 are no limit.
func (c *Config) lockTimeout() string {
	d := defaultLockTimeout
	if c != nil && c.LockTimeout != 0 {
		d = c.LockTimeout
	}
	if d < 0 {
		return "0"
	}
	// Rounded up, lest half a millisecond become none, and with it no limit.
	ms := (int64(d-1) / int64(time.Millisecond)) + 1
	return strconv.FormatInt(min(ms, math.MaxInt32), 10)
}

func parse(name string) (schema.Name, error) {
	n, err := schema.Parse(name)
	if err != nil {
		return n, fmt.Errorf("migrations: %w", err)
	}
	return n, nil
}
