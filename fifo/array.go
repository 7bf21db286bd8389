package fifo

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Arrays as texts: see "Array Input and Output Syntax" in PostgreSQL's manual.

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
		return array(items, appendText), true
	case []*string:
		return array(items, func(to []byte, s *string) []byte {
			if s == nil {
				return append(to, "NULL"...)
			}
			return appendText(to, *s)
		}), true
	case [][]byte:
		return array(items, func(to, b []byte) []byte {
			if b == nil {
				return append(to, "NULL"...)
			}
			return append(hex.AppendEncode(append(to, `"\\x`...), b), '"')
		}), true
	case []bool:
		return array(items, strconv.AppendBool), true
	case []int32:
		return array(items, appendInt), true
	case []int64:
		return array(items, appendInt), true
	default:
		return nil, false
	}
}

func array[T any](items []T, element func(to []byte, item T) []byte) []byte {
	if items == nil {
		return nil
	}
	text := append(make([]byte, 0, 16*len(items)+2), '{')
	for i, item := range items {
		if i > 0 {
			text = append(text, ',')
		}
		text = element(text, item)
	}
	return append(text, '}')
}

func appendText(to []byte, s string) []byte {
	return append(append(append(to, '"'), arrayEscaper.Replace(s)...), '"')
}

var arrayEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func appendInt[T int32 | int64](to []byte, n T) []byte { return strconv.AppendInt(to, int64(n), 10) }
