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
		text, is := arrayText(arg)
		switch {
		case !is:
		case text == nil:
			args[i] = nil
		default:
			args[i] = string(text)
		}
	}
	return args
}

// arrayText reports whether an argument is an array, and returns that as a text, or nil for one that is NULL.
func arrayText(arg any) (text []byte, is bool) {
	switch items := arg.(type) {
	case []string:
		return array.Of(items, array.Text), true
	case []*string:
		return array.Of(items, func(to []byte, s *string) []byte {
			if s == nil {
				return append(to, "NULL"...)
			}
			return array.Text(to, *s)
		}), true
	case [][]byte:
		return array.Of(items, func(to, b []byte) []byte {
			if b == nil {
				return append(to, "NULL"...)
			}
			return append(hex.AppendEncode(append(to, `"\\x`...), b), '"')
		}), true
	case []bool:
		return array.Of(items, strconv.AppendBool), true
	case []int32:
		return array.Of(items, array.Int), true
	case []int64:
		return array.Of(items, array.Int), true
	default:
		return nil, false
	}
}
