package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A Hold is an open transaction that owns one group and the job at its head; or, claimed as a batch, some more jobs
// behind that head, or several groups with a head each. When the transaction ends, by commit, rollback or a lost
// connection, PostgreSQL frees them all; nothing else does.
type Hold struct {
	Held // the first job
	// Rest are the others: those behind the first in its group, in order, or the heads of other groups.
	Rest []Held

	lane    *Lane
	loan    Loan   // the first one
	unsure  bool   // the claim is to be made again: it was for more groups, or somebody else has had one since its snapshot
	claimed []Held // then: all heads that it got
}

// A Held is a job that a Hold owns.
type Held struct {
	Key
	ID          int64
	Payload     []byte
	Attempts    int       // failed or lost before this one
	MaxAttempts int       // 0: not said when it was enqueued
	EnqueuedAt  time.Time // by the server's clock
	DueIn       time.Duration
	Paused      bool // the group or its queue is paused
	More        bool // there is another job behind this one
	// Place is where its row is, for as long as it is held.
	Place Place
	// Turn is the group's place among the Turns.
	Turn *Turn

	delayed bool // it was to run later once
	touched bool // somebody may have changed it since the snapshot of its claim
	stale   bool // somebody may have had its group since then

	groupXID uint32 // the transaction that locked its group last before the claim, or 0
	lastXID  uint32 // the one that claimed it last, or 0
}

// A Place is a ctid: a block of the table, and a line in it.
type Place struct {
	block uint32
	line  uint16
}

// Append appends the place as PostgreSQL writes it.
func (p Place) Append(to []byte) []byte {
	to = strconv.AppendUint(append(to, '('), uint64(p.block), 10)
	return append(strconv.AppendUint(append(to, ','), uint64(p.line), 10), ')')
}

// Ready reports whether the job may run now.
func (h *Held) Ready() bool { return h.DueIn <= 0 && !h.Paused }

// alone reports whether the job is to run by itself: it has failed before, or may be tried only once, or waits or has
// waited for its time.
func (h *Held) alone() bool { return h.Attempts > 0 || h.MaxAttempts == 1 || h.delayed || !h.Ready() }

// Result formats: binary for what is not text anyway.
var claimFormats = []int16{1}

var errClaimRow = errors.New("groups: claim: unexpected row")

// rowReader reads the columns of a row in binary, from left to right. It keeps the first error.
type rowReader struct {
	values [][]byte
	next   int
	err    error
	kept   []byte // copies of an answer's payloads
}

// copied returns a copy, not nil, that nobody can append to another's.
func (r *rowReader) copied(v []byte) []byte {
	if cap(r.kept)-len(r.kept) < len(v) || r.kept == nil {
		r.kept = make([]byte, 0, max(len(v), 2*cap(r.kept)))
	}
	begin := len(r.kept)
	r.kept = append(r.kept, v...)
	return r.kept[begin:len(r.kept):len(r.kept)]
}

// column returns the next one, which must have the given width in bytes; -1: any.
func (r *rowReader) column(width int, null bool) []byte {
	if r.next >= len(r.values) {
		r.fail("of %d columns", len(r.values))
		return nil
	}
	v := r.values[r.next]
	r.next++
	if v == nil && null {
		return nil
	}
	if v == nil || width >= 0 && len(v) != width {
		r.fail("column %d has %d bytes", r.next, len(v))
		return nil
	}
	return v
}

func (r *rowReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{errClaimRow}, args...)...)
	}
}

func (r *rowReader) int64() int64 {
	if v := r.column(8, false); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (r *rowReader) uint32() uint32 {
	if v := r.column(4, false); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

func (r *rowReader) bool() bool {
	v := r.column(1, false)
	return v != nil && v[0] != 0
}

// noMore reports whether the columns that are left are null, and passes over them then.
func (r *rowReader) noMore() bool {
	for _, v := range r.values[min(r.next, len(r.values)):] {
		if v != nil {
			return false
		}
	}
	r.next = len(r.values)
	return true
}

// end returns the first error. There must be no more columns.
func (r *rowReader) end() error {
	if r.err == nil && r.next != len(r.values) {
		r.fail("of %d columns", len(r.values))
	}
	return r.err
}

// maxDue is the longest that a head is parked before somebody looks again; run_at may be 'infinity'.
const maxDue = 365 * 24 * time.Hour

// scan reads what claim.sql and claim_many.sql tell of a head.
func (h *Held) scan(r *rowReader) {
	h.scanJob(r)
	h.scanDue(r)
	h.scanPlace(r)
	h.scanClaim(r)
}

func (h *Held) scanJob(r *rowReader) {
	h.ID = r.int64()
	h.Payload = r.copied(r.column(-1, false))
	h.Attempts = int(int32(r.uint32()))
	if v := r.column(4, true); v != nil {
		h.MaxAttempts = int(int32(binary.BigEndian.Uint32(v)))
	}
	h.EnqueuedAt = timeFromPG(r.int64())
}

func (h *Held) scanDue(r *rowReader) {
	runAt := r.column(8, true)
	now := r.column(8, runAt == nil)
	if runAt == nil || now == nil {
		return
	}
	h.delayed = true
	at, from := int64(binary.BigEndian.Uint64(runAt)), int64(binary.BigEndian.Uint64(now))
	h.DueIn = time.Duration(min(max(at, from)-from, maxDue.Microseconds())) * time.Microsecond
}

func (h *Held) scanClaim(r *rowReader) {
	job := r.uint32()
	h.groupXID = r.uint32()
	h.lastXID = claimer(job, h.groupXID)
	h.Turn.own = r.int64()
}

// judge tells by the snapshot of the claim whether it is stale.
func (h *Held) judge(s *snapshot) {
	h.Turn.oldest = s.xmin
	h.stale = h.groupXID != 0 && !s.ended(h.groupXID)
}

func (h *Held) scanPlace(r *rowReader) {
	if v := r.column(6, false); v != nil {
		h.Place = Place{binary.BigEndian.Uint32(v), binary.BigEndian.Uint16(v[4:])}
	}
}

// claimer returns the transaction that claimed a head before, from those that locked its row and its group's row last,
// or 0. A claim locks both, so the group's is the same one; or a later one, of a claim with a stale head that found the
// group free and the job gone. An earlier one, or none, means that somebody locked the job without the group: an
// operator, whose rollback is no crash; or, rarely, that all of a claim came between the two look-ups of this one. Transaction ids are compared as PostgreSQL does, around the circle.
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
