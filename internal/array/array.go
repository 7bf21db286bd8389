// Package array writes parameters that are arrays as texts: see "Array Input and Output Syntax" in PostgreSQL's manual.
package array

import (
	"strconv"
	"strings"
)

// Of returns the array of items that element appends, or nil for a nil slice.
func Of[T any](items []T, element func(to []byte, item T) []byte) []byte {
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

// Texts returns an array with one text for each item.
func Texts[T any](items []T, of func(T) string) []byte {
	return Of(items, func(to []byte, item T) []byte { return Text(to, of(item)) })
}

// Ints returns an array with one number for each item.
func Ints[T any](items []T, of func(T) int64) []byte {
	return Of(items, func(to []byte, item T) []byte { return Int(to, of(item)) })
}

// Text appends a text.
func Text(to []byte, s string) []byte {
	return append(append(append(to, '"'), escaper.Replace(s)...), '"')
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Int appends a number.
func Int[T int32 | int64 | uint32](to []byte, n T) []byte { return strconv.AppendInt(to, int64(n), 10) }
