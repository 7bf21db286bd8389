//go:build unix

package torture

import (
	"os"
	"syscall"
)

// canStop says that processes can be stopped and go on.
const canStop = true

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func proceed(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// killBackend kills a process of the server.
func killBackend(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
