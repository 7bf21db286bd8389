package fifo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Decode decodes the payload from JSON into v, a pointer. The text of its error says where the payload does not fit,
// and not what stands there: it ends in logs and in the job's failures. Unwrap it for what the decoder says, which
// often quotes the payload.
func (j *Job) Decode(v any) error {
	return j.misfit(json.Unmarshal(j.Payload, v))
}

// decodeStrictly is Decode for a payload without fields that v does not have.
func (j *Job) decodeStrictly(v any) error {
	if !json.Valid(j.Payload) {
		return j.Decode(v)
	}
	d := json.NewDecoder(bytes.NewReader(j.Payload))
	d.DisallowUnknownFields()
	return j.misfit(d.Decode(v))
}

func (j *Job) misfit(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("fifo: decode payload of job %d: %w", j.ID, &payloadError{err})
}

// A payloadError is an error of encoding/json, or of a type's own method, without the values that those quote.
type payloadError struct{ err error }

func (e *payloadError) Error() string {
	syntax, misfit := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(e.err, &syntax): // its own text quotes a character
		return fmt.Sprintf("not JSON, at byte %d (a Payload of type string or []byte is sent as it is)", syntax.Offset)
	case errors.As(e.err, &misfit):
		kind, _, _ := strings.Cut(misfit.Value, " ") // "number 4111111111111111"
		return fmt.Sprintf("JSON %s for %s of type %v, at byte %d", kind, cmp.Or(misfit.Field, "a value"),
			misfit.Type, misfit.Offset)
	case strings.HasPrefix(e.err.Error(), "json: unknown field "): // it has no type of its own
		return "it has a field that its type does not have"
	default:
		return fmt.Sprintf("a value does not fit its type (%T)", e.err)
	}
}

func (e *payloadError) Unwrap() error { return e.err }

// unencodable returns an error of json.Marshal without values. What a type's own MarshalJSON says is the type's to say.
func unencodable(err error) error {
	marshaler, kind, value := (*json.MarshalerError)(nil), (*json.UnsupportedTypeError)(nil),
		(*json.UnsupportedValueError)(nil)
	panicked := (*PanicError)(nil)
	if errors.As(err, &panicked) || errors.As(err, &marshaler) || errors.As(err, &kind) || errors.As(err, &value) {
		return err
	}
	return &payloadError{err} // a json.Number that is none
}
