package groups

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidateID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"a", " ", "a b", "/", "é", "日本", "🙂", "no meaning yet: \u0378",
		strings.Repeat("x", MaxIDBytes), strings.Repeat("é", MaxIDBytes/2),
	} {
		require.NoError(t, ValidateID("GroupID", id), id)
		require.NoError(t, Key{id, id}.Validate(), id)
	}
	for id, why := range map[string]string{
		"":                                  "is empty",
		strings.Repeat("x", MaxIDBytes+1):   "129 bytes long",
		strings.Repeat("é", MaxIDBytes/2+1): "130 bytes long",
		"\xff":                              "not valid UTF-8",
		"\xed\xa0\x80":                      "not valid UTF-8", // a surrogate
		"a\x00":                             "U+0000",
		"a\n":                               "U+000A",
		"\u200b":                            "U+200B",
		"\u202e":                            "U+202E",
		"\ufffe":                            "U+FFFE",
	} {
		err := ValidateID("GroupID", id)
		require.ErrorIs(t, err, ErrInvalidID, "%q", id)
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, "GroupID")
		require.ErrorContains(t, Key{id, "a"}.Validate(), "Queue")
		require.ErrorContains(t, Key{"a", id}.Validate(), "GroupID")
	}
	require.Equal(t, "a/b", Key{"a", "b"}.String())
}
