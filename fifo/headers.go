package fifo

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pgfifo/pgfifo/groups"
)

// Headers are what goes with a message beside its payload: names, like those of queues and groups, and values of any
// bytes. A trace context travels in them:
//
//	otel.GetTextMapPropagator().Inject(ctx, propagation.MapCarrier(headers))
//
// They are stored as a jsonb object: a value is a string there, or {"base64": "..."} if it is no text that PostgreSQL
// can have. Nil and an empty map are the same.
//
// Names that begin with "pgfifo-" are the library's: it uses some (OriginQueue), and may use others later.
type Headers map[string]string

// encoded is a value that is no text.
type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON returns the object that is stored.
func (h Headers) MarshalJSON() ([]byte, error) {
	values := make(map[string]any, len(h))
	for name, v := range h {
		if values[name] = v; !storable(v) {
			values[name] = encoded{[]byte(v)}
		}
	}
	return json.Marshal(values)
}

// UnmarshalJSON reads what MarshalJSON has written. A value of another kind, written by hand, is given as it stands.
func (h *Headers) UnmarshalJSON(stored []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(stored, &values); err != nil {
		return err
	}
	*h = make(Headers, len(values))
	for name, raw := range values {
		(*h)[name] = headerValue(raw)
	}
	return nil
}

func headerValue(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text
	}
	var b encoded
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&b) == nil && b.Base64 != nil {
		return string(b.Base64)
	}
	return string(raw)
}

// size returns how many bytes names and values have.
func (h Headers) size() (n int) {
	for name, v := range h {
		n += len(name) + len(v)
	}
	return n
}

// encode checks the names, and returns what is to be stored. No headers are nil.
func (h Headers) encode() (*string, error) {
	if len(h) == 0 {
		return nil, nil
	}
	for name := range h {
		if err := groups.ValidateID("header name", name); err != nil {
			return nil, err
		}
	}
	stored, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("headers: %w", err)
	}
	object := string(stored)
	return &object, nil
}

// decodeHeaders returns stored headers, or nil.
func decodeHeaders(stored []byte) Headers {
	if h := decoded[Headers](stored); len(h) > 0 {
		return h
	}
	return nil
}
