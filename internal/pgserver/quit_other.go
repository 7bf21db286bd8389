//go:build !unix

package pgserver

import (
	"os"
	"os/exec"
	"path/filepath"
)

// quit tells the server to end at once (PostgreSQL's immediate shutdown).
func (c *cluster) quit(*os.Process) {
	pgCtl := filepath.Join(c.bin, "pg_ctl"+exeSuffix())
	// Where this fails, the server is killed in the end.
	_ = exec.Command(pgCtl, "stop", "-D", c.data(), "-m", "immediate", "-W").Run()
}
