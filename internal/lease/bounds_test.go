package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSessionValidate(t *testing.T) {
	t.Parallel()
	for _, s := range []Bounds{
		{},
		{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 4500*time.Millisecond + 2},
		{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3400 * time.Millisecond},
		{ServerSilence: 17 * time.Second},
		{ServerSilence: time.Hour},
		{ServerSilence: math.MaxInt32 * time.Millisecond},
		{Heartbeat: time.Millisecond},
	} {
		require.NoError(t, s.Validate(), s)
	}
	for _, s := range []Bounds{
		{Heartbeat: -1},
		{Heartbeat: 1},
		{Heartbeat: time.Millisecond - 1},
		{Silence: -1},
		{ServerSilence: -1},
		{ServerSilence: 16 * time.Second},
		{Heartbeat: time.Second, Silence: 2 * time.Second, ServerSilence: 4500 * time.Millisecond},
		// What the server may give away after 2 s, with its reply on its way, TCP does not notice before.
		{Heartbeat: 100 * time.Millisecond, Silence: time.Second, ServerSilence: 3 * time.Second},
		{Silence: 25 * time.Second},
		{Silence: time.Hour},
		{ServerSilence: (math.MaxInt32 + 1) * time.Millisecond},
		{ServerSilence: math.MaxInt64},
		// The sum, or the whole seconds, of these would be no Durations.
		{Heartbeat: math.MaxInt64 / 2, Silence: math.MaxInt64/2 + 2},
		{Silence: math.MaxInt64},
		{Heartbeat: math.MaxInt64},
	} {
		require.Error(t, s.Validate(), s)
	}
	require.Equal(t, Bounds{time.Second, 10 * time.Second, 30 * time.Second}, Bounds{}.WithDefaults())
	own := Bounds{time.Minute, time.Hour, 2 * time.Hour}
	require.Equal(t, own, own.WithDefaults())
}
