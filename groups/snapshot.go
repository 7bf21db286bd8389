package groups

import (
	"encoding/binary"
	"slices"
)

// A snapshot is a pg_snapshot: see "pg_snapshot Components" in the PostgreSQL manual. It is there until the next row is read.
type snapshot struct {
	xmin, xmax int64  // all transactions before xmin have ended, none from xmax on
	running    []byte // those between that have not, as the server sent them
}

// keep returns a copy to keep.
func (s snapshot) keep() *snapshot {
	s.running = slices.Clone(s.running)
	return &s
}

// snapshot reads one in binary: how many are running, xmin, xmax, and those.
func (r *rowReader) snapshot() (s snapshot) {
	v := r.column(-1, false)
	if len(v) < 20 || len(v) != 20+8*int(binary.BigEndian.Uint32(v)) {
		if r.err == nil {
			r.fail("snapshot of %d bytes", len(v))
		}
		return snapshot{}
	}
	return snapshot{int64(binary.BigEndian.Uint64(v[4:])), int64(binary.BigEndian.Uint64(v[12:])), v[20:]}
}

// ended reports whether a transaction had ended when the snapshot was taken. Its id has the lower 32 bits only: of those it
// may stand for, the one that is meant is the nearest to xmax.
func (s *snapshot) ended(xid uint32) bool {
	id := s.xmax + int64(int32(xid-uint32(s.xmax)))
	if id < s.xmin || id >= s.xmax {
		return id < s.xmin
	}
	for v := s.running; len(v) > 0; v = v[8:] {
		if int64(binary.BigEndian.Uint64(v)) == id {
			return false
		}
	}
	return true
}
