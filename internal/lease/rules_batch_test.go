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
				t.Parallel()
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
			t.Parallel()
			var faults []string
			for _, ending := range endings {
				if _, fault := judge(newStage(t), take, ending, false); fault != "" {
					faults = append(faults, fault)
				}
			}
			require.NotEmpty(t, faults)
		})
	}
}
