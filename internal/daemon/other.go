//go:build !unix

package daemon

import "os/exec"

// owner is the user who runs programs: here always ourselves. PostgreSQL
// refuses to be run by an administrator.
type owner struct{}

func newOwner() (*owner, error) { return &owner{}, nil }

func (*owner) own(string) error { return nil }

func (*owner) apply(*exec.Cmd) {}

func (*owner) hint() string { return "" }

// A Guard cleans up after a killed process on Unix; here nothing does.
type Guard struct{}

const stopAndRemove = ""

// NewGuard does nothing.
func NewGuard(string, ...string) (*Guard, error) { return &Guard{}, nil }

func (*Guard) watch(int) {}

// Close does nothing.
func (*Guard) Close() error { return nil }
