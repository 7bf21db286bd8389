package lease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Handlers may use bun on a lane.
func TestLaneRefusesNonconformingStrings(t *testing.T) {
	s := newStage(t)
	d := s.dialer(Bounds{})
	d.Pool.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	_, err := d.Dial(t.Context())
	require.ErrorIs(t, err, ErrNonconforming)
	_, err = d.Connect(t.Context())
	require.ErrorIs(t, err, ErrNonconforming)
}
