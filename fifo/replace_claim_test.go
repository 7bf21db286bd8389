package fifo_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A claim has the row of a delayed or paused head for a moment, to look at it. A newer message waits for that.
func TestReplaceWhatAClaimLooksAt(t *testing.T) {
	overAll(t, map[string]time.Duration{"delayed": time.Hour, "paused": 0}, func(t *testing.T, delay time.Duration) {
		b := newBed(t)
		first, second := newer("g", "a", "first"), newer("g", "a", "second")
		first.Delay, second.Delay = delay, delay
		id := b.sendAll(first)[0]
		if delay == 0 {
			_, _, err := b.client.Queue("q").Group("g").Pause(t.Context(), "")
			require.NoError(t, err)
		}
		claim := b.begin()
		_, err := claim.Exec(t.Context(), "SELECT FROM pgfifo.jobs FOR UPDATE")
		require.NoError(t, err)
		replaced := make(chan bool, 1)
		go func() { replaced <- b.replaces(id, second) }()
		await(t, "the producer", func() bool {
			return len(replaced) > 0 || query[bool](b, "SELECT EXISTS (SELECT FROM pg_stat_activity "+
				"WHERE datname = current_database() AND wait_event = 'PgSleep')")
		})
		require.NoError(t, claim.Commit(t.Context()))
		require.True(t, receive(t, replaced, "the producer"))
		require.Equal(t, "second", string(b.jobs()[0].Payload))
	})
}

// It does not wait for long: somebody may keep the job.
func TestReplaceWhatSomebodyKeeps(t *testing.T) {
	b := newBed(t)
	first, second := newer("g", "a", "first"), newer("g", "a", "second")
	first.Delay = time.Hour
	id := b.sendAll(first)[0]
	operator := b.begin()
	_, err := operator.Exec(t.Context(), "SELECT FROM pgfifo.jobs FOR UPDATE")
	require.NoError(t, err)
	require.False(t, b.replaces(id, second))
}
