package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

// A Hold is an open transaction that owns one group and the job at its head. When the transaction ends, by commit,
// rollback or a lost connection, PostgreSQL frees both; nothing else does.
type Hold struct {
	Key
	ID          int64
	Payload     []byte
	Attempts    int       // failed or lost before this one
	MaxAttempts int       // 0: not said when it was enqueued
	EnqueuedAt  time.Time // by the server's clock
	DueIn       time.Duration
	Paused      bool // the group or its queue is paused
	More        bool // there is another job behind this one

	lastXID uint32
	lane    *Lane

	mu     sync.Mutex // the fields below: a handler may use several goroutines
	ended  bool
	opened bool // a handler took the transaction: the savepoints exist
	bunTx  *bun.Tx
}

// Ready reports whether the job may run now.
func (h *Hold) Ready() bool { return h.DueIn <= 0 && !h.Paused }

// taken reports whether a handler asked for the transaction.
func (h *Hold) taken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}

// end makes the handler's transaction unusable, and closes rows that database/sql keeps open on it.
func (h *Hold) end() {
	h.mu.Lock()
	h.ended = true
	tx := h.bunTx
	h.bunTx = nil
	h.mu.Unlock()
	if tx != nil {
		_ = tx.Tx.Commit() // no SQL, see laneTx
	}
}

// claimFormats are the result formats of claim.sql: binary for what is not text anyway.
var claimFormats = []int16{1}

var errClaimRow = errors.New("groups: claim: unexpected row")

// claimWidths are the lengths of the columns of claim.sql, in bytes; -1: any.
var claimWidths = [...]int{8, -1, 4, 4, 8, 8, 8, 1, 1, 4, 4}

// maxDue is the longest that a head is parked before somebody looks again; run_at may be 'infinity'.
const maxDue = 365 * 24 * time.Hour

// scan reads a row of claim.sql.
func (h *Hold) scan(v [][]byte) error {
	if len(v) != len(claimWidths) {
		return fmt.Errorf("%w of %d columns", errClaimRow, len(v))
	}
	for i, width := range claimWidths {
		if nullable := i == 3 || i == 5; width >= 0 && len(v[i]) != width && (v[i] != nil || !nullable) {
			return fmt.Errorf("%w: column %d has %d bytes", errClaimRow, i+1, len(v[i]))
		}
	}
	h.ID = int64(binary.BigEndian.Uint64(v[0]))
	h.Payload = append([]byte{}, v[1]...)
	h.Attempts = int(int32(binary.BigEndian.Uint32(v[2])))
	if v[3] != nil {
		h.MaxAttempts = int(int32(binary.BigEndian.Uint32(v[3])))
	}
	h.EnqueuedAt = timeFromPG(int64(binary.BigEndian.Uint64(v[4])))
	if v[5] != nil {
		at, now := int64(binary.BigEndian.Uint64(v[5])), int64(binary.BigEndian.Uint64(v[6]))
		h.DueIn = time.Duration(min(max(at, now)-now, maxDue.Microseconds())) * time.Microsecond
	}
	h.Paused = v[7][0] != 0
	h.More = v[8][0] != 0
	h.lastXID = claimer(binary.BigEndian.Uint32(v[9]), binary.BigEndian.Uint32(v[10]))
	return nil
}

// claimer returns the transaction that claimed a head before, from those that locked its row and its group's row last,
// or 0. A claim locks both, so the group's is the same one; or a later one, of a claim with a stale head that found the
// group free and the job gone. An earlier one, or none, means that somebody locked the job without the group: an
// operator, whose rollback is no crash. Transaction ids are compared as PostgreSQL does, around the circle.
func claimer(job, group uint32) uint32 {
	if group == 0 || int32(group-job) < 0 {
		return 0
	}
	return job
}

// pgEpoch is 2000-01-01, from which PostgreSQL counts microseconds.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func timeFromPG(us int64) time.Time {
	return time.Unix(pgEpoch.Unix()+us/1e6, us%1e6*1e3).UTC() // a time.Duration holds 292 years only
}

func appendInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
