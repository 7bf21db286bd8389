//go:build !linux

package netfault

import (
	"fmt"
	"os/exec"
	"runtime"
)

// A Net is a network namespace with a cable to this machine's own. Only Linux has them.
type Net struct{}

// NewNet returns ErrNoNet.
func NewNet() (*Net, error) {
	return nil, fmt.Errorf("%w: %s has none", ErrNoNet, runtime.GOOS)
}

// HostIP returns nothing.
func (*Net) HostIP() string { return "" }

// Run returns ErrNoNet.
func (*Net) Run(*exec.Cmd) error { return ErrNoNet }

// Cut returns ErrNoNet.
func (*Net) Cut() error { return ErrNoNet }

// CutOneWay returns ErrNoNet.
func (*Net) CutOneWay(Direction) error { return ErrNoNet }

// Heal returns ErrNoNet.
func (*Net) Heal() error { return ErrNoNet }

// Close does nothing.
func (*Net) Close() error { return nil }
