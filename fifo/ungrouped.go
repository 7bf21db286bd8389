package fifo

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// A message of no group gets a group of its own, so all that holds of jobs holds of its job. The id of the group begins
// with the time, so that indexes grow at their end and walks meet the oldest first.

const (
	ownGroupMark  = '~'
	ownGroupBytes = 1 + 24
)

var ownGroupEncoding = base32.HexEncoding.WithPadding(base32.NoPadding) // sorts as the bytes do

// ownGroup draws the id of a group for one job.
func ownGroup() string {
	var id [15]byte // 6 of time, 9 of chance
	binary.BigEndian.PutUint64(id[:8], uint64(time.Now().UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	return string(ownGroupMark) + ownGroupEncoding.EncodeToString(id[:])
}

// isOwnGroup reports whether an id looks as if it was drawn. If it was not drawn but looks so, the group's row is
// deleted too early, and made again.
func isOwnGroup(id string) bool { return len(id) == ownGroupBytes && id[0] == ownGroupMark }

var leaveStmt = settles("leave")
