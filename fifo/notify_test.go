package fifo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

// A redrive that waits to be announced must not be hidden by a later enqueue to its group.
func TestAnnounceLowestID(t *testing.T) {
	t.Parallel()
	a := &announcer{}
	a.init(&Client{})
	defer a.cancel()
	a.sending = true // by somebody else, so that all of this is pending
	b := &batch{queues: []string{"q", "q", "q"}, groups: []string{"g", "h", "g"}, delays: []int64{0, 0, 0}}
	a.later(b, []int64{5, 6, 7}, false)
	a.later(b, []int64{100, 101, 102}, false)
	require.Equal(t, map[groups.Key]int64{{Queue: "q", GroupID: "g"}: 5, {Queue: "q", GroupID: "h"}: 6}, a.pending)
}

// A notice that tells of many groups costs two tokens: a client that enqueues so fast sends fewer of them.
func TestNoticesOfManyGroupsAreFewer(t *testing.T) {
	t.Parallel()
	a := &announcer{}
	a.init(&Client{})
	defer a.cancel()
	for groups, left := range map[int]float64{1: noticeBurst - 1, noticeMany - 1: noticeBurst - 1, noticeMany: noticeBurst - 2} {
		a.counted = time.Time{} // long ago: there are as many tokens as can be
		a.pace(groups)
		require.InDelta(t, left, a.tokens, 0, groups)
	}
}
