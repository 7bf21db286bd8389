//go:build unix

package pgserver

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript reads the id of the process to end, one a line, 0 for none; the
// last one counts. Its input ends when this process has: by release, or by
// being killed, whatever the signal. $1 is the folder to remove.
//
// A process that is told to quit gets 10 s. The folder is removed up to three
// times: what still ends may write into it meanwhile.
const guardScript = `
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

// guard is a shell that outlives this process and cleans up after it. A
// process that is killed can't; and the kernel's own help (Pdeathsig) is
// Linux's only, per thread, and removes no folder.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// newGuard starts the guard of a folder.
func newGuard(dir string) (*guard, error) {
	cmd := exec.Command("sh", "-c", guardScript, "pgserver-guard", dir)
	cmd.Dir = "/"
	// A session of its own: signals to our process group are not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The pipe's end that we hold is close-on-exec, as all of Go's files: no
	// other child of ours keeps the guard waiting.
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard of %s: %w", dir, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard of %s: %w", dir, err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

// watch tells the guard which process to end; 0 is none. An id must be taken
// back when its process ends, as another may get it then.
func (g *guard) watch(pid int) {
	_, _ = fmt.Fprintln(g.pipe, pid) // a guard that was killed is no reason to fail
}

// release ends the guard, after it has cleaned up what is left.
func (g *guard) release() error {
	_ = g.pipe.Close() // the only error is of being closed already
	if err := g.cmd.Wait(); err != nil && g.cmd.ProcessState == nil {
		return fmt.Errorf("pgserver: guard: %w", err)
	}
	return nil
}
