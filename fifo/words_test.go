package fifo_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Outcomes and states are written to JSON as words, each its own, and read again. Others are refused.
func TestWordsInJSON(t *testing.T) {
	t.Parallel()
	outcomes, states := make(map[fifo.Outcome]string), make(map[fifo.State]string)
	for o := fifo.Succeeded; o <= fifo.Unknown; o++ {
		outcomes[o] = o.String()
	}
	for s := fifo.State(0); s <= fifo.Dead; s++ {
		states[s] = s.String()
	}
	require.Equal(t, map[fifo.Outcome]string{
		fifo.Succeeded: "succeeded", fifo.Retried: "retried", fifo.Buried: "buried", fifo.Returned: "returned",
		fifo.Snoozed: "snoozed", fifo.Blocked: "blocked", fifo.Discarded: "discarded", fifo.Unknown: "unknown",
	}, outcomes)
	require.Equal(t, map[fifo.State]string{
		0: "unknown", fifo.Held: "held", fifo.Paused: "paused", fifo.BackingOff: "backing off",
		fifo.Delayed: "delayed", fifo.OverLimit: "over its limit", fifo.Due: "due", fifo.Behind: "behind",
		fifo.Dead: "dead",
	}, states)
	for _, e := range []int{-1, 9} {
		require.Equal(t, "unknown", fifo.Outcome(e).String())
		require.Equal(t, "unknown", fifo.State(e).String())
	}

	text, err := json.Marshal([]any{outcomes, states})
	require.NoError(t, err)
	var gotOutcomes map[fifo.Outcome]string
	var gotStates map[fifo.State]string
	require.NoError(t, json.Unmarshal(text, &[]any{&gotOutcomes, &gotStates}))
	require.Equal(t, outcomes, gotOutcomes)
	require.Equal(t, states, gotStates)

	for s := range states {
		status := fifo.Status{State: s, LastFailure: &fifo.Failure{Kind: fifo.KindLost}}
		back := fifo.Status{State: fifo.Held}
		text, err := json.Marshal(status)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, status, back)
	}
	for o := range outcomes {
		text, err := json.Marshal(o)
		require.NoError(t, err)
		require.Equal(t, strconv.Quote(o.String()), string(text))
		var back fifo.Outcome
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, o, back)
	}

	o, s := fifo.Buried, fifo.Paused
	require.EqualError(t, json.Unmarshal([]byte(`"lost"`), &o), `fifo: invalid outcome: "lost"`)
	require.Equal(t, fifo.Buried, o)
	err = json.Unmarshal([]byte(`"Held"`), &s)
	require.ErrorIs(t, err, fifo.ErrInvalidState)
	require.ErrorContains(t, err, `"Held"`)
	require.Equal(t, fifo.Paused, s)
}
