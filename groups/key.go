package groups

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxIDBytes is the longest queue name or group id, in bytes of UTF-8. It is SQS's limit, and keeps index keys short.
const MaxIDBytes = 128

// ErrInvalidID is returned for a queue name or group id that is empty, longer than MaxIDBytes, not valid UTF-8, or not
// printable. It comes before any SQL.
var ErrInvalidID = errors.New("groups: invalid id")

// A Key names one message group of one queue.
type Key struct {
	Queue   string
	GroupID string
}

// String returns the key as queue/group, for people. It is not meant to be parsed: both parts may contain a slash.
func (k Key) String() string { return k.Queue + "/" + k.GroupID }

// Validate returns an error that wraps ErrInvalidID and names the field, or nil.
func (k Key) Validate() error {
	if err := ValidateID("Queue", k.Queue); err != nil {
		return err
	}
	return ValidateID("GroupID", k.GroupID)
}

// ValidateID checks a queue name or group id; field is its name in the error.
func ValidateID(field, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalidID, field)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%w: %s is %d bytes long, at most %d", ErrInvalidID, field, len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrInvalidID, field, id)
	}
	for _, r := range id {
		if !printable(r) {
			return fmt.Errorf("%w: %s %q contains %U, which is not printable", ErrInvalidID, field, id, r)
		}
	}
	return nil
}

// printable reports whether a character may be in a name. So may what Unicode has not given a meaning yet: it can come
// from a program that knows a newer Unicode, or through SQL, and no group is to be beyond the verbs of operators.
func printable(r rune) bool {
	return unicode.IsPrint(r) || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co, unicode.Z,
		unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point)
}
