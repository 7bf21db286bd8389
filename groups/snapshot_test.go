package groups

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// wireSnapshot is a snapshot as the server sends it.
func wireSnapshot(xmin, xmax int64, running ...int64) []byte {
	v := binary.BigEndian.AppendUint32(nil, uint32(len(running)))
	for _, id := range append([]int64{xmin, xmax}, running...) {
		v = binary.BigEndian.AppendUint64(v, uint64(id))
	}
	return v
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	const epoch = 1 << 32
	for _, c := range []struct {
		xmin, xmax int64
		running    []int64
		ended, not []uint32
	}{
		{10, 10, nil, []uint32{3, 9}, []uint32{10, 11}},
		{10, 15, []int64{10, 13}, []uint32{9, 11, 12, 14}, []uint32{10, 13, 15, 16}},
		{3*epoch + 4, 3*epoch + 6, []int64{3*epoch + 4}, []uint32{3, 5, epoch - 1, epoch - 1000}, []uint32{4, 6, 7, 1000}},
		{3*epoch - 2, 3*epoch + 6, []int64{3*epoch - 2, 3*epoch + 4}, []uint32{epoch - 3, epoch - 1, 3, 5}, []uint32{epoch - 2, 4, 6}},
	} {
		r := rowReader{values: [][]byte{wireSnapshot(c.xmin, c.xmax, c.running...)}}
		s := r.snapshot()
		require.NoError(t, r.end())
		require.Equal(t, c.xmin, s.xmin)
		for _, xid := range c.ended {
			require.True(t, s.ended(xid), "%d in %+v", xid, c)
		}
		for _, xid := range c.not {
			require.False(t, s.ended(xid), "%d in %+v", xid, c)
		}
	}
	right := wireSnapshot(10, 15, 12)
	for _, v := range [][]byte{nil, {}, right[:4], right[:27], append(right, 0)} {
		r := rowReader{values: [][]byte{v}}
		r.snapshot()
		require.ErrorIs(t, r.end(), errClaimRow)
	}
}

// The server's own, in binary, with a transaction that runs and one that has ended.
func TestSnapshotOfTheServer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c, other := s.session(), s.session()
	other.do("BEGIN")
	var runs int64
	require.NoError(t, other.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&runs))
	ended := one[int64](s, "SELECT pg_current_xact_id()::text::bigint")
	res := c.PgConn().ExecParams(t.Context(), "SELECT pg_current_snapshot()", nil, nil, nil, []int16{1}).Read()
	require.NoError(t, res.Err)
	r := rowReader{values: res.Rows[0]}
	snap := r.snapshot()
	require.NoError(t, r.end())
	require.False(t, snap.ended(uint32(runs)))
	require.True(t, snap.ended(uint32(ended)))
	require.False(t, snap.ended(uint32(snap.xmax)))
}
