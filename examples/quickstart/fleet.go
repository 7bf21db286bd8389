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
type fleet []*process

// A process is this program again, with an assignment. It ends when its standard input does.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout bytes.Buffer // its counters, at the end
}

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
	p := &process{name: a.Name, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), assignmentEnv+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	*f = append(*f, p)
	return nil
}

// kill ends the last process the hard way: SIGKILL, which it cannot notice.
func (f *fleet) kill() error {
	p := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it says that the process was killed
	return err
}

// stop tells the processes that are left to finish what they run and end. It returns how many attempts they counted as
// failed: the handler never fails, so these are the ones that were lost with a killed worker. A second call does
// nothing.
func (f *fleet) stop() (lost int64, err error) {
	for _, p := range *f {
		_ = p.stdin.Close()
		defer time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() }).Stop()
	}
	var errs []error
	for _, p := range *f {
		var stats fifo.Stats
		if err := errors.Join(p.cmd.Wait(), json.Unmarshal(p.stdout.Bytes(), &stats)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
		lost += stats.Retried
	}
	*f = nil
	return lost, errors.Join(errs...)
}
