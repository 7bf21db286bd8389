package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A Hold is what a claim has: one group and the job at its head; or, as a batch, some more jobs behind that head, or
// several groups with a head each.
//
// The Hold of a Lane is an open transaction. When that ends, by commit, rollback or a lost connection, PostgreSQL frees
// all that it has; nothing else does. The Hold of a Borrower is a session's: see Keeper.
type Hold struct {
	Held // the first job
	// Rest are the others: those behind the first in its group, in order, or the heads of other groups.
	Rest []Held
	// Apart are the numbers of groups that were given back, because their heads are to be claimed by themselves.
	Apart []int

	loan    Loan   // the first one
	claimed []Held // all heads of a claim that has locked more groups than it may work; else nil
}

// changed reports whether a lane that has taken the hold has found a job of it that is not what was read.
func (h *Hold) changed() bool {
	return slices.ContainsFunc(keptBehind(h), func(job *Held) bool { return job.Place == Place{} })
}

// A Held is a job that a Hold owns.
type Held struct {
	groups.Key
	N           int // the group's number in the Request
	ID          int64
	Payload     []byte
	Headers     []byte    // a JSON object, or nil
	Attempts    int       // failed or lost before this one
	MaxAttempts int       // 0: not said when it was enqueued
	EnqueuedAt  time.Time // by the server's clock
	RunAt       time.Time // when it may run, or could; zero: it was never to wait
	Priority    int
	DueIn       time.Duration
	Paused      bool // the group or its queue is paused
	More        bool // there is another job behind this one
	// Place is where its row is, for as long as it is held.
	Place Place
	// GroupSlot says that other jobs of its group may run beside it.
	GroupSlot bool
	// Suspect says that it may be what has killed its workers: its last attempt died with one, or its last two.
	Suspect bool
	// Seen is what the claim has learned of the group.
	Seen Seen

	jobXID   uint32 // the transaction that had locked its row before, or 0
	groupXID uint32 // the one that had locked its group's row before, or 0
	marked   bool   // this very attempt has begun before, and died
	token    int64  // of a session's claim that has its group, or 0
	session  int64  // whose claim that is
	slot     int32  // of its queue that the claim has, or 0
	version  uint32 // of a job behind the head of a session's batch: the transaction that had written it; or 0
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

// Element appends the place as an element of an array.
func (p Place) Element(to []byte) []byte { return append(p.Append(append(to, '"')), '"') }

// Token is that of the session's claim that has the group, or 0.
func (h *Held) Token() int64 { return h.token }

// Ready reports whether the job may run now.
func (h *Held) Ready() bool { return h.DueIn <= 0 && !h.Paused }

// runsAlone reports whether the job is to run by itself: it has failed before, or may be tried only once, or waits or
// has waited for its time.
func (h *Held) runsAlone() bool {
	return h.Attempts > 0 || h.MaxAttempts == 1 || !h.RunAt.IsZero() || !h.Ready()
}

var errClaimRow = errors.New("lease: claim: unexpected row")

// rowReader reads the columns of a row in binary, from left to right. It keeps the first error.
type rowReader struct {
	values [][]byte
	next   int
	err    error
	kept   []byte // copies of an answer's payloads
}

// copied returns a copy that does not grow into the next one if somebody appends to it. It returns nil only for nil.
func (r *rowReader) copied(v []byte) []byte {
	if v == nil {
		return nil
	}
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

// fixed returns the next column, which must not be NULL. After an error it is made of zeros.
func (r *rowReader) fixed(width int) []byte {
	if v := r.column(width, false); v != nil {
		return v
	}
	return make([]byte, width)
}

// nulls reads the next columns, which must be NULL.
func (r *rowReader) nulls(n int) {
	for range n {
		if r.column(-1, true) != nil {
			r.fail("column %d is not NULL", r.next)
		}
	}
}

func (r *rowReader) int64() int64 { return int64(binary.BigEndian.Uint64(r.fixed(8))) }

func (r *rowReader) uint32() uint32 { return binary.BigEndian.Uint32(r.fixed(4)) }

// optional returns a column of 32 bits, a number or a transaction's id; ok is false for NULL.
func (r *rowReader) optional() (n uint32, ok bool) {
	v := r.column(4, true)
	if v == nil {
		return 0, false
	}
	return binary.BigEndian.Uint32(v), true
}

func (r *rowReader) place() Place {
	v := r.fixed(6)
	return Place{binary.BigEndian.Uint32(v), binary.BigEndian.Uint16(v[4:])}
}

func (r *rowReader) bool() bool { return r.fixed(1)[0] != 0 }

// end returns the first error. There must be no more columns.
func (r *rowReader) end() error {
	if r.err == nil && r.next != len(r.values) {
		r.fail("of %d columns", len(r.values))
	}
	return r.err
}

// maxDue is what a Duration has room for, in microseconds: run_at may be 'infinity'.
const maxDue = int64(math.MaxInt64 / time.Microsecond)

// scan reads what all claims tell of a head. groupXID is the transaction that locked its group before.
func (h *Held) scan(r *rowReader, groupXID uint32) {
	h.scanJob(r)
	h.jobXID, h.groupXID = r.uint32(), groupXID
	h.Suspect = r.bool()
	h.Seen.XID, h.Seen.Oldest, h.Seen.Dialed = r.int64(), r.int64(), dials.Load()
	h.Paused = r.bool()
}

// scanJob reads what is told of a job behind a head, too.
func (h *Held) scanJob(r *rowReader) {
	h.ID = r.int64()
	h.Payload = r.copied(r.column(-1, true))
	h.Attempts = int(int32(r.uint32()))
	most, _ := r.optional()
	h.MaxAttempts = int(int32(most))
	h.EnqueuedAt = timeFromPG(r.int64())
	h.scanDue(r)
	h.Place, h.marked = r.place(), r.bool()
	if v := r.column(-1, true); len(v) > 0 {
		h.Headers = r.copied(v[1:]) // behind the version of jsonb's binary format
	}
	if v := r.column(2, true); v != nil {
		h.Priority = int(binary.BigEndian.Uint16(v))
	}
}

// sent reports whether a session's claim has sent the head's payload, too: there was room for it beside the others.
func (h Held) sent() bool { return h.Payload != nil }

// unclaimed reports whether a session's claim has written nothing into the group's row, although the head is to run.
func (h Held) unclaimed(r *Request) bool {
	return h.token == 0 && h.sent() && (h.marked || h.Ready() && (r.SuspectAllowed || !h.Suspect))
}

func (h *Held) scanDue(r *rowReader) {
	runAt := r.column(8, true)
	now := r.column(8, runAt == nil)
	if runAt == nil || now == nil {
		return
	}
	at, from := int64(binary.BigEndian.Uint64(runAt)), int64(binary.BigEndian.Uint64(now))
	h.RunAt = timeFromPG(at)
	h.DueIn = time.Duration(min(max(at, from)-from, maxDue)) * time.Microsecond
}

// perhapsLost reports whether the claim has found something that may be the evidence of a crash: evidence.sql tells. A
// claim locks a job and its group. An operator locks a job only.
func (h *Held) perhapsLost() bool { return h.jobXID != 0 && h.groupXID != 0 }

// hidesNone reports whether the claim that has locked it surely hides no lost attempt when it is committed.
func (h Held) hidesNone() bool { return h.ID != 0 && (h.marked || !h.perhapsLost()) }

// pgEpoch is 2000-01-01, from which PostgreSQL counts microseconds.
var pgEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func timeFromPG(us int64) time.Time {
	return time.Unix(pgEpoch.Unix()+us/1e6, us%1e6*1e3).UTC() // a time.Duration holds 292 years only
}

func appendInt(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
