package fifo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

type (
	// JSON sees nothing of these.
	mute       struct{ account, amount any }
	muteWithin struct {
		A int `json:"-"`
		mute
		*muteToo
		b int
	}
	muteToo struct{ *muteToo }

	// It sees something of these, or may.
	audible struct {
		A int `json:",omitempty"`
	}
	audibleWithin struct {
		b int
		*audible
	}
	muteByName struct {
		mute `json:"n"`
	}
	spoken   struct{ text string }
	speaking struct{ text string }
)

func (s spoken) MarshalText() ([]byte, error)    { return []byte(s.text), nil }
func (s *speaking) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// All payloads of a type of which JSON sees nothing would be the same, and duplicates of each other.
func TestPayloadThatJSONLoses(t *testing.T) {
	t.Parallel()
	pointer := &mute{"a", 1}
	for _, payload := range []any{
		mute{"a", 1},
		pointer, &pointer,
		muteWithin{mute: mute{"a", 1}, muteToo: &muteToo{}, b: 1},
		&muteToo{},
		speaking{"by its pointer only"},
		bytes.NewBufferString("a"),
		bytes.Buffer{},
		strings.NewReader("a"),
		errOnPurpose, errors.Join(errOnPurpose),
	} {
		_, err := fifo.ContentID(payload)
		require.ErrorIs(t, err, fifo.ErrInvalidMessage, "%T", payload)
		require.ErrorContains(t, err, "of which JSON sees no field", "%T", payload)
	}
	loud := &speaking{}
	for _, payload := range []any{
		struct{}{},
		&struct{}{},
		map[string]int{},
		audible{},
		&audible{},
		audibleWithin{b: 1},
		audibleWithin{audible: &audible{1}},
		muteByName{mute: mute{}},
		spoken{"a"},
		&spoken{"a"}, loud, &loud, (*mute)(nil),
		time.Now(), []mute(nil), json.Number("1"),
		&os.PathError{Op: "open"},
		struct{ _ struct{} }{},
		struct {
			Secret string `json:"-"`
		}{"a"},
	} {
		require.NoError(t, second(fifo.ContentID(payload)), "%T", payload)
	}
}
