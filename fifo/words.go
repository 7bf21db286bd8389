package fifo

import (
	"fmt"
	"slices"
)

// words are what the values of an enum are called, in their order.
type words[E ~int] []string

// of returns what a value is called, or "unknown" if it is none.
func (w words[E]) of(value E) string {
	if value < 0 || int(value) >= len(w) {
		return "unknown"
	}
	return w[value]
}

// read sets value to what is called so, or returns invalid with the text.
func (w words[E]) read(text []byte, value *E, invalid error) error {
	i := slices.Index(w, string(text))
	if i < 0 {
		return fmt.Errorf("%w: %q", invalid, text)
	}
	*value = E(i)
	return nil
}
