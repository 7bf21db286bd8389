//go:build !unix

package pgserver

import (
	"os/exec"
	"path/filepath"
)

// owner is the user who runs a cluster: here always ourselves. PostgreSQL
// refuses to be run by an administrator.
type owner struct{}

func clusterOwner() (*owner, error) { return &owner{}, nil }

func (*owner) own(string) error { return nil }

func (*owner) apply(*exec.Cmd) {}

func (*owner) hint() string { return "" }

// quit tells the server to end at once (PostgreSQL's immediate shutdown).
func (c *cluster) quit() {
	pgCtl := filepath.Join(c.bin, "pg_ctl"+exeSuffix())
	// Where this fails, stop kills the server in the end.
	_ = exec.Command(pgCtl, "stop", "-D", c.data(), "-m", "immediate", "-W").Run()
}

// guard cleans up after a killed process on Unix; here nothing does.
type guard struct{}

func newGuard(string) (*guard, error) { return &guard{}, nil }

func (*guard) watch(int) {}

func (*guard) release() error { return nil }
