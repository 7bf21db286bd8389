package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// A fleet is the worker processes, seen from the parent.
type fleet struct {
	procs  []*process
	failed chan error // a process ended that nobody had told to
}

// A process is this program again, with an assignment. It ends when its standard input does.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout bytes.Buffer // its counters, at the end
	told   chan struct{}
	exited chan struct{}
	err    error // how it ended, once exited is closed
}

func newFleet(size int) *fleet { return &fleet{failed: make(chan error, size)} }

// start starts one more worker.
func (f *fleet) start(a assignment) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	p := &process{name: a.Name, cmd: exec.Command(exe), told: make(chan struct{}), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), assignmentEnv+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.procs = append(f.procs, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
		select {
		case <-p.told:
		default:
			f.failed <- fmt.Errorf("%s ended by itself: %v", p.name, p.cmd.ProcessState)
		}
	}()
	return nil
}

// kill ends a process the hard way: SIGKILL, which it cannot notice.
func (p *process) kill() error {
	close(p.told)
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// stop tells the processes that are left to finish what they run and end. It returns how many attempts they counted as
// failed: the handler never fails, so these are the ones that were lost with a killed worker. A second call does
// nothing.
func (f *fleet) stop() (lost int64, err error) {
	var left []*process
	for _, p := range f.procs {
		select {
		case <-p.told:
		default:
			close(p.told)
			_ = p.stdin.Close()
			left = append(left, p)
		}
	}
	var errs []error
	for _, p := range left {
		select {
		case <-p.exited:
		case <-time.After(20 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		var stats fifo.Stats
		if err := errors.Join(p.err, json.Unmarshal(p.stdout.Bytes(), &stats)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
		lost += stats.Retried
	}
	return lost, errors.Join(errs...)
}
