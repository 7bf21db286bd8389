package fifo

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	return v.Kind() == reflect.Struct && hasUnexported(v.Type()) && !seen(v.Type(), nil)
}

// hasUnexported reports whether a struct has an unexported field, apart from "_".
func hasUnexported(t reflect.Type) bool {
	for i := range t.NumField() {
		if f := t.Field(i); f.Name != "_" && !f.IsExported() {
			return true
		}
	}
	return false
}

// seen reports whether JSON sees a field of a struct, or of one that is embedded in it.
func seen(t reflect.Type, within []reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, _, _ := strings.Cut(tag, ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && embedded.Kind() == reflect.Struct:
			if name != "" || !slices.Contains(within, embedded) && seen(embedded, append(within, t)) {
				return true
			}
		case f.IsExported():
			return true
		}
	}
	return false
}
