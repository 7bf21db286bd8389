// Package daemon runs servers for tests, each in a folder of its own that goes with it: as a user who is not root, and
// not for longer than this process lives, even when that is killed (on Unix).
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// stopTimeout bounds how long a program may take to end when told to.
const stopTimeout = 10 * time.Second

// A Daemon is a folder, and the program that runs there.
type Daemon struct {
	Dir    string            // all that the program writes
	Quit   func(*os.Process) // tells the program to end at once
	Exited chan struct{}     // closed when it has ended; nil: it was not started

	owner *owner // whom programs run as
	guard *Guard // cleans up if this process is killed
	cmd   *exec.Cmd
}

// New makes the folder, empty yet, in a folder that is there; "" is the one for temporary files.
func New(parent string) (*Daemon, error) {
	owner, err := newOwner()
	if err != nil {
		return nil, err
	}
	// Not testing's TempDir, even in a test: its parent is closed to others.
	dir, err := os.MkdirTemp(parent, "pgfifo-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Dir: dir, owner: owner}
	if d.guard, err = NewGuard(stopAndRemove, dir); err == nil {
		err = d.Own(dir)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// LogFile is where programs write what they say.
func (d *Daemon) LogFile() string { return filepath.Join(d.Dir, "log") }

// Own gives a file or a folder to the user whom programs run as.
func (d *Daemon) Own(path string) error { return d.owner.own(path) }

// Start runs a program in the background.
func (d *Daemon) Start(program string, arg ...string) (err error) {
	d.cmd, d.Exited, err = d.run(program, arg)
	return err
}

// Execute runs a program to its end.
func (d *Daemon) Execute(ctx context.Context, program string, arg ...string) error {
	cmd, exited, err := d.run(program, arg)
	if err != nil {
		return err
	}
	select {
	case <-exited:
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it may have ended just now
		<-exited
		return fmt.Errorf("%s: %w", filepath.Base(program), ctx.Err())
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s", filepath.Base(program), cmd.ProcessState)
	}
	return nil
}

// run starts a program, as the owner, in the folder and with the log: the caller's folder may be closed to the owner,
// and the caller's output must not be held open by a program that outlives it. The channel is closed when it has ended.
func (d *Daemon) run(program string, arg []string) (*exec.Cmd, chan struct{}, error) {
	log, err := os.OpenFile(d.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(program, arg...)
	cmd.Dir = d.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	d.owner.apply(cmd)
	err = cmd.Start()
	_ = log.Close() // the program has its own copy
	if err != nil {
		return nil, nil, fmt.Errorf("%w%s", err, d.owner.hint())
	}
	d.guard.watch(cmd.Process.Pid)
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its result is in cmd.ProcessState
		d.guard.watch(0)
		close(exited)
	}()
	return cmd, exited, nil
}

// Ended reports whether the program has ended, or was not started.
func (d *Daemon) Ended() bool {
	if d.Exited == nil {
		return true
	}
	select {
	case <-d.Exited:
		return true
	default:
		return false
	}
}

// Stop ends the program without the niceties of a shutdown.
func (d *Daemon) Stop() error {
	if d.Ended() {
		return nil
	}
	d.Quit(d.cmd.Process)
	select {
	case <-d.Exited:
		return nil
	case <-time.After(stopTimeout):
	}
	return errors.Join(fmt.Errorf("%s did not stop within %s and was killed", d.cmd.Path, stopTimeout), d.Kill())
}

// Kill ends the program with SIGKILL.
func (d *Daemon) Kill() error {
	err := d.cmd.Process.Kill()
	<-d.Exited
	return err
}

// Close ends the program, removes the folder, then lets the guard go.
func (d *Daemon) Close() error {
	errs := []error{d.Stop(), os.RemoveAll(d.Dir)}
	if d.guard != nil {
		errs = append(errs, d.guard.Close())
	}
	return errors.Join(errs...)
}

// given are the ports that FreePort has returned: who has one may not listen yet.
var given sync.Map

// FreePort returns a TCP port of 127.0.0.1 that nothing listened on a moment ago, each time another one. Another
// process may take it before it is used.
func FreePort() (int, error) {
	for {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, err
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
}
