//go:build unix

package daemon

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// stopAndRemove reads the id of the process to end, one a line, 0 for none; the
// last one counts. $1 is the folder to remove.
//
// A process that is told to quit gets 10 s. The folder is removed up to three
// times: what still ends may write into it meanwhile.
const stopAndRemove = `
pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 0 ]; then
	kill -QUIT "$pid" 2>/dev/null
	n=0
	while kill -0 "$pid" 2>/dev/null && [ "$n" -lt 100 ]; do sleep 0.1; n=$((n+1)); done
	kill -KILL "$pid" 2>/dev/null
fi
for n in 1 2 3; do
	rm -rf -- "$1" 2>/dev/null
	[ -e "$1" ] || break
	sleep 0.5
done
`

// A Guard is a shell that outlives this process and cleans up after it. A
// process that is killed can't; and the kernel's own help (Pdeathsig) is
// Linux's only, per thread, and removes nothing.
type Guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// NewGuard starts a script that reads its input to the end, and then cleans up.
// Its input ends with Close, or with this process, whatever ends that.
func NewGuard(script string, arg ...string) (*Guard, error) {
	cmd := exec.Command("sh", append([]string{"-c", script, "pgfifo-guard"}, arg...)...)
	cmd.Dir = "/"
	// A session of its own: signals to our process group are not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The pipe's end that we hold is close-on-exec, as all of Go's files: no
	// other child of ours keeps the guard waiting.
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard{cmd: cmd, pipe: pipe}, nil
}

// watch tells the guard which process to end; 0 is none. An id must be taken
// back when its process ends, as another may get it then.
func (g *Guard) watch(pid int) {
	_, _ = fmt.Fprintln(g.pipe, pid) // a guard that was killed is no reason to fail
}

// Close ends the guard, after it has cleaned up what is left.
func (g *Guard) Close() error {
	_ = g.pipe.Close() // the only error is of being closed already
	if err := g.cmd.Wait(); err != nil && g.cmd.ProcessState == nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}
