//go:build unix

package torture

import (
	"os"
	"os/exec"
	"syscall"
)

// canStop says that processes can be stopped and go on.
const canStop = true

// apart gives a process a group of its own. In that of the harness, the kernel has a stopped one go on when the shell
// ends that has started the run: that orphans the group.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func proceed(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// killBackend kills a process of the server.
func killBackend(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
