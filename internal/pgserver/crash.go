package pgserver

import (
	"context"
	"fmt"
)

// ErrNoCrash is returned by Halt and Resume of a server that this package can't
// end and start again: one that DATABASE_URL names, or Docker or
// embedded-postgres runs.
var ErrNoCrash = fmt.Errorf("pgserver: only a server from %q can be halted", sourceLocal)

// CanCrash reports whether Halt and Resume work.
func (s *Server) CanCrash() bool { return s.halt != nil }

// Halt ends the server as a crash does: at once, without the niceties of a
// shutdown. Its data stays as it was.
//
// It must not run beside Resume or Close.
func (s *Server) Halt() error {
	if s.halt == nil {
		return ErrNoCrash
	}
	return s.halt()
}

// Resume starts a halted server again, at the same URL and with the same data,
// and waits until it has recovered and answers.
func (s *Server) Resume(ctx context.Context) error {
	if s.resume == nil {
		return ErrNoCrash
	}
	return s.resume(ctx)
}
