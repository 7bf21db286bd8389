// Package netfault puts what goes wrong in networks between a client and a PostgreSQL server: a proxy that delays,
// swallows and resets, and that can lose the answer to a COMMIT; and a network namespace whose cable can be pulled.
//
// They differ in what the kernels see. The proxy's sockets stay healthy while it swallows bytes: both ends get their
// acknowledgements, so TCP's own timeouts never fire. In a namespace that is cut off, nothing arrives, acknowledgements
// included, and they do.
package netfault

import "errors"

// A Direction is one of the two ways between a client and its server.
type Direction int

// The two ways.
const (
	ToServer Direction = iota
	ToClient
)

func (d Direction) String() string {
	if d == ToServer {
		return "to the server"
	}
	return "to the client"
}

// ErrNoNet is wrapped by NewNet's error where there can be no Net: the text says which right or program is missing.
var ErrNoNet = errors.New("netfault: no network namespace")
