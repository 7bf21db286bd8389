package torture

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// brokenBy returns the invariants that the checkers find broken, each once.
func brokenBy(h *history) (names []string) {
	for _, v := range check(h).violations() {
		names = append(names, v.Invariant)
	}
	return names
}

func TestSoundHistory(t *testing.T) {
	t.Parallel()
	c := check(newBook().seal())
	require.Empty(t, c.breaches)
	for _, inv := range []string{"I1", "I2", "I3", "I3-fence", "I4", "I5", "I6", "I8", "I9"} {
		require.NotZero(t, c.checked[inv], inv)
	}
}

// A flaw makes a history that is sound but for one thing.
type flaw struct {
	breaks string // the invariant; "" for those that are sound: what is excused, and by how little
	do     func(b *book)
}

// judge shows that the checkers tell broken histories from sound ones.
func judge(t *testing.T, flaws map[string]flaw) {
	t.Helper()
	for name, x := range flaws {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook()
			x.do(b)
			h := b.seal()
			if x.breaks == "" {
				require.Empty(t, check(h).breaches)
				return
			}
			require.Equal(t, []string{x.breaks}, brokenBy(h), "%+v", check(h).breaches)
		})
	}
}
