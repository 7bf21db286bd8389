package fifo

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

func queued(group string, id int64) *entry {
	return &entry{queue: "q", group: group, Receipt: Receipt{ID: id}}
}

// A redrive that waits to be announced must not be hidden by a later enqueue to its group.
func TestAnnounceLowestID(t *testing.T) {
	t.Parallel()
	b := batch{queued("g", 100), queued("h", 101), queued("g", 102)}
	h, more := make(hints), make(hints)
	h.add("q", "g", 5, true)
	h.add("q", "h", 6, true)
	h.add("q", "g", 7, true)
	more.addBatch(b)
	h.addAll(more)
	require.Equal(t, hints{"q": {groups: map[string]int64{"g": 5, "h": 6}, back: true}}, h)
	more.addAll(h)
	require.Equal(t, h, more)
}

// A notice names a few groups. Of more it keeps no names, however many there are.
func TestNoticeOfManyGroups(t *testing.T) {
	t.Parallel()
	h, all := make(hints), make(hints)
	for i := range 10 * noticeHints {
		h.add("q", strconv.Itoa(i), int64(i), false)
		require.LessOrEqual(t, len(h["q"].groups), noticeHints+1)
		require.Equal(t, i < noticeHints, len(h.notices()[0]) > len(`{"q":"q"}`))
	}
	require.Equal(t, []string{`{"q":"q"}`}, h.notices())
	all.addAll(h)
	require.Equal(t, h, all)
}

// What concerns a whole queue is not hidden by what concerns a group of it, whichever came first.
func TestNoticeOfAQueue(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		h, more := make(hints), make(hints)
		h.add("q", "g", 5, false)
		more.of("q").all = true
		if first {
			h, more = more, h
		}
		require.NotEqual(t, h.notices(), more.notices())
		h.addAll(more)
		require.Equal(t, []string{`{"q":"q"}`}, h.notices())
	}
}

// Transactions that do not end take no more memory than this.
func TestOpenTransactionsAreBounded(t *testing.T) {
	t.Parallel()
	a := &announcer{}
	a.init(&Client{})
	a.running = true // so that nobody asks
	enqueued := func(id, xid int64) {
		a.sayLater(xid, nil, func(h hints) { h.addBatch(batch{queued("g", id)}) })
	}
	for xid := range int64(tuning.Known + 10) {
		enqueued(xid, xid)
	}
	require.Len(t, a.open, tuning.Known)
	enqueued(tuning.Known+10, 0)
	a.ended([]int64{0, tuning.Known + 1}, []int64{1})
	require.Len(t, a.open, tuning.Known-2)
	require.Equal(t, hints{"q": {groups: map[string]int64{"g": 0}}}, a.pending)
	old := a.open[2]
	old.since = old.since.Add(-openFor)
	require.Len(t, a.due(old.since.Add(openFor+1), true), tuning.Known-3)
	require.NotContains(t, a.open, int64(2))
	for xid := range int64(tuning.Known + 10) {
		enqueued(xid, xid)
	}
	a.sayLater(-1, nil, func(h hints) { h.cancel("q", "g", 1) })
	require.Len(t, a.open, tuning.Known+1, "no poll finds a Cancel")
	a.open[-1].since = old.since
	require.Contains(t, a.due(old.since.Add(openFor+1), true), int64(-1))
	a.close()
}
