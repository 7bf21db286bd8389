package fifo

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

func encodePayload(v any) (payload []byte, err error) {
	switch p := v.(type) {
	case nil:
	case []byte:
		payload = p
	case json.RawMessage:
		payload = p
	case string:
		payload = []byte(p)
	default:
		catch(&err, "Payload", func() error {
			payload, err = json.Marshal(p)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%w: Payload does not encode: %w", ErrInvalidMessage, unencodable(err))
		}
		if string(payload) == "{}" && !marshals(p) && hidden(reflect.ValueOf(p)) {
			return nil, fmt.Errorf("%w: Payload is a %T, of which JSON sees no field: encode it yourself, "+
				"or give it a MarshalJSON", ErrInvalidMessage, p)
		}
	}
	if payload == nil {
		payload = []byte{}
	}
	return payload, nil
}

func marshals(v any) bool {
	switch v.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return true
	}
	return false
}

// hidden reports whether a value is, behind its pointers, a struct that has unexported fields and none that JSON sees.
// All such payloads of a type would be the same: duplicates of each other, with ContentID.
func hidden(v reflect.Value) bool {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		if v = v.Elem(); v.CanInterface() && marshals(v.Interface()) {
			return false
		}
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	unexported := false
	for _, f := range reflect.VisibleFields(v.Type()) {
		tag := f.Tag.Get("json")
		switch {
		case !f.IsExported():
			unexported = unexported || len(f.Index) == 1 && f.Name != "_"
		case tag == "-", f.Anonymous && tag == "": // the fields in it follow
		default:
			return false
		}
	}
	return unexported
}
