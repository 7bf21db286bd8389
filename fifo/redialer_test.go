package fifo

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// What pgx says of two tries in the same words is said once. What can be asked of the error stays.
func TestEachLineOnce(t *testing.T) {
	t.Parallel()
	twice := fmt.Errorf("cannot:\n\t%w\n\t%w\n\tother", fs.ErrClosed, fs.ErrClosed)
	err := eachLineOnce(twice)
	require.EqualError(t, err, "cannot:\n\tfile already closed\n\tother")
	require.ErrorIs(t, err, fs.ErrClosed)
	require.Same(t, twice, errors.Unwrap(err))
	require.Equal(t, fs.ErrClosed, eachLineOnce(fs.ErrClosed))
}

func TestRedialersDoNotKeepStep(t *testing.T) {
	t.Parallel()
	const lanes = 50
	var list [lanes]*redialer
	for i := range list {
		list[i] = &redialer{log: slog.New(slog.DiscardHandler), who: "lane"}
	}
	for pause := tuning.Rest; pause < 4*tuning.Grace; pause *= 2 {
		bound := min(pause, tuning.Grace)
		seen := make(map[time.Duration]bool)
		for _, r := range list {
			d := r.next()
			require.LessOrEqual(t, d, bound)
			require.GreaterOrEqual(t, d, bound/2)
			seen[d] = true
		}
		require.Greater(t, len(seen), lanes/2, "pauses of up to %v", bound)
	}
	for _, r := range list {
		r.failed = 0
		require.LessOrEqual(t, r.next(), tuning.Rest)
	}
}
