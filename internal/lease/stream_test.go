package lease

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// message returns one of the protocol's.
func message(kind byte, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, 4+uint32(len(body))), body...)
}

// Messages are told apart however the bytes are cut up.
func TestFrames(t *testing.T) {
	t.Parallel()
	var all []byte
	for _, m := range [][]byte{
		message('D', "row"), message('Z', "T"), message('n', ""), message('N', string(make([]byte, 300))),
	} {
		all = append(all, m...)
	}
	for size := 1; size <= len(all); size++ {
		f := &frames{}
		var kinds string
		for rest := all; len(rest) > 0; {
			b := rest[:min(size, len(rest))]
			rest = rest[len(b):]
			for len(b) > 0 {
				left := f.left()
				n, kind := f.step(b)
				require.LessOrEqual(t, min(left, len(b)), n)
				b = b[n:]
				if kind != 0 {
					kinds += string(kind)
				}
			}
		}
		require.Equal(t, "DZnN", kinds)
		require.Zero(t, f.n)
	}
}

// Whose turn it is, by what both sides have said.
func TestWhoseTurn(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		say, hear string
		owed      int
	}{
		"nothing":                          {"", "", 0},
		"a query":                          {"Q", "TDD", 1},
		"a query, answered":                {"Q", "TDDCZ", 0},
		"a notice beside":                  {"", "NSA", 0},
		"a statement":                      {"PBDES", "12", 1},
		"a statement, answered":            {"PBDES", "12nCZ", 0},
		"two, one answered":                {"BESBES", "2CZ2", 1},
		"no Sync yet":                      {"PBEH", "12", 1},
		"no Sync yet, all answered so far": {"PBEH", "12C", 1},
		"Sync comes late":                  {"PBEHS", "12CZ", 0},
		"Sync alone":                       {"S", "", 1},
		"copying in":                       {"Qddd", "G", 1},
		"copied in":                        {"Qdddc", "GCZ", 0},
		"a call":                           {"F", "V", 1},
	} {
		s := &stream{}
		for _, kind := range []byte(x.say) {
			s.say(message(kind, "x"))
		}
		for _, kind := range []byte(x.hear) {
			s.hear(message(kind, "x"))
		}
		require.Equal(t, x.owed, s.owed, name)
	}
}
