package lease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever happens while a claim is on its way to the group, it takes what stands first afterwards, or nothing.
func TestBatchTakesWhatIsFirst(t *testing.T) {
	t.Parallel()
	for _, at := range []string{beforeGroup, groupIsRead} {
		for how, take := range rightTakings(at) {
			t.Run(at+"/"+how, func(t *testing.T) {
				s := newStage(t)
				for name, ending := range endings {
					t.Run(name, func(t *testing.T) {
						_, fault := judge(s.again(t), take, ending, at == groupIsRead)
						require.Empty(t, fault)
					})
				}
			})
		}
	}
}

func TestObviousBatchesDoNot(t *testing.T) {
	t.Parallel()
	for how, take := range brokenTakings {
		t.Run(how, func(t *testing.T) {
			s, faults := newStage(t), 0
			for name, ending := range endings {
				t.Run(name, func(t *testing.T) {
					if _, fault := judge(s.again(t), take, ending, false); fault != "" {
						faults++
					}
				})
			}
			require.NotZero(t, faults)
		})
	}
}
