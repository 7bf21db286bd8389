package fifo

import (
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/pgfifo/pgfifo/internal/array"
)

// withTexts returns the arguments of a statement with arrays as texts: not every driver of database/sql takes slices.
func withTexts(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = withText(arg)
	}
	return args
}

// withText returns an array as a text, or nil for one that is NULL, and other arguments as they are.
func withText(arg any) any {
	var text []byte
	switch items := arg.(type) {
	case []string:
		text = array.Of(items, array.Text)
	case []*string:
		text = array.Of(items, func(to []byte, s *string) []byte {
			if s == nil {
				return append(to, "NULL"...)
			}
			return array.Text(to, *s)
		})
	case [][]byte:
		text = array.Of(items, func(to, b []byte) []byte {
			if b == nil {
				return append(to, "NULL"...)
			}
			return append(hex.AppendEncode(append(to, `"\\x`...), b), '"')
		})
	case []bool:
		text = array.Of(items, strconv.AppendBool)
	case []int32:
		text = array.Of(items, array.Int)
	case []int64:
		text = array.Of(items, array.Int)
	default:
		return arg
	}
	if text == nil {
		return nil
	}
	return string(text)
}
