package torture

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A holder that was frozen asks for its token when it goes on: it must be refused, or have asked before its successor.
func TestFormerHolder(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		token  int64 // 0: refused
		broken []string
	}{
		"refused":                {0, nil},
		"asked long ago":         {199, nil},
		"given one as if it had": {201, []string{"I3-fence"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook()
			b.send(10, 10, 1, resOK)
			b.event(0, evStart, 1, 10, 1, 10, "-")
			b.mark(faultStop, "w1", 0)
			b.now += 3500
			b.event(1, evStart, 1, 10, 2, 10, "-")
			b.event(1, evFence, 1, 10, 2, 200, "-")
			b.event(1, evEnd, 1, 10, 2, 0, "ok")
			b.event(1, evSettled, 1, 10, 2, 0, "succeeded")
			b.effect(1, 10, 2)
			b.now += 2000
			b.mark("cont", "w1", 0)
			if x.token != 0 {
				b.event(0, evFence, 1, 10, 1, x.token, "-")
			}
			b.event(0, evEnd, 1, 10, 1, 0, "error")
			b.event(0, evSettled, 1, 10, 1, 0, "unknown")
			require.Equal(t, x.broken, brokenBy(b.seal()))
		})
	}
}
