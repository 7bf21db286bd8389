package pgtest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// OverAll runs a test with each row of a table, beside each other and beside other tests.
func OverAll[T any](t *testing.T, table map[string]T, test func(t *testing.T, row T)) {
	t.Helper()
	OverNamed(t, table, func(t *testing.T, _ string, row T) { test(t, row) })
}

// OverNamed is OverAll for a test that uses the row's name, too.
func OverNamed[T any](t *testing.T, table map[string]T, test func(t *testing.T, name string, row T)) {
	t.Helper()
	t.Parallel()
	for name, row := range table {
		t.Run(name, func(t *testing.T) { test(t, name, row) })
	}
}

// OverEach runs a test with each of several values, beside each other and beside other tests.
func OverEach[T any](t *testing.T, values []T, test func(t *testing.T, value T)) {
	t.Helper()
	t.Parallel()
	for _, value := range values {
		t.Run(fmt.Sprint(value), func(t *testing.T) { test(t, value) })
	}
}

// OverPairs runs a test with rows of three tables of two rows each, so that every two rows of different tables meet. It
// takes half of the cases that there are.
func OverPairs[A, B, C any](
	t *testing.T, as map[string]A, bs map[string]B, cs map[string]C, test func(t *testing.T, a A, b B, c C),
) {
	t.Helper()
	t.Parallel()
	for i, a := range slices.Sorted(maps.Keys(as)) {
		for j, b := range slices.Sorted(maps.Keys(bs)) {
			for k, c := range slices.Sorted(maps.Keys(cs)) {
				if (i+j+k)%2 == 0 {
					t.Run(a+"/"+b+"/"+c, func(t *testing.T) { test(t, as[a], bs[b], cs[c]) })
				}
			}
		}
	}
}
