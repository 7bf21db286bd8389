//go:build unix

package pgserver

import (
	"os"
	"syscall"
)

// quit tells the server to end at once (PostgreSQL's immediate shutdown).
func (*cluster) quit(server *os.Process) {
	_ = server.Signal(syscall.SIGQUIT) // it may have ended just now
}
