package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// A way is how a process reaches the server.
type way string

const (
	direct  way = "direct"
	byProxy way = "proxy"
	byNet   way = "net"
)

// wayOf returns the way of the processes in a slot: a few are behind the proxy, a few in the network namespace.
func (r *run) wayOf(slot int) way {
	few := min(2, r.cfg.Processes/3)
	switch {
	case slot < few:
		return byProxy
	case slot < 2*few && r.net != nil:
		return byNet
	}
	return direct
}

// A process is a worker or producer process, seen from the harness.
type process struct {
	name   string
	slot   int // -1: a producer
	way    way
	cmd    *exec.Cmd
	stdin  io.WriteCloser // its end is the end of the process
	exited chan struct{}

	reserved bool // some fault has to do with it; run.mu
}

// spawn starts a process. It does not outlive the harness.
func (r *run) spawn(role, name string, slot int, w way) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cfg := r.cfg
	cfg.Dir = r.dir
	text, err := json.Marshal(order{
		Config: cfg, Role: role, Name: name, URL: r.way(w), Hub: filepath.Join(r.hubs, "hub"),
		Keeps: cfg.Batch > 1 && keepsAt(slot), Tenant: r.tenant, Super: r.super, Prepare: r.prepare,
	})
	if err != nil {
		return nil, err
	}
	errs, err := os.OpenFile(filepath.Join(r.dir, name+".err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = errs.Close() }()
	p := &process{name: name, slot: slot, way: w, cmd: exec.Command(exe), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), orderEnv+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = errs, errs
	apart(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r.mark("spawn", name, 0, string(w))
	if w == byNet {
		err = r.net.Run(p.cmd)
	} else {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// man starts the worker of a slot, and another one whenever it has died.
func (r *run) man(slot int) error {
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return nil
	}
	r.spawned++
	name := fmt.Sprint("w", r.spawned)
	r.mu.Unlock()
	p, err := r.spawn("worker", name, slot, r.wayOf(slot))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.slots[slot] = p
	if r.stopping { // halt may not have seen it
		_ = p.cmd.Process.Kill()
	}
	r.mu.Unlock()
	r.children.Go(func() {
		_ = p.cmd.Wait() // how it ended, its state says
		r.mark("dead", p.name, 0, p.cmd.ProcessState.String())
		r.hub.forget(p.name)
		close(p.exited)
		_ = p.stdin.Close()
		r.staff.RLock()
		defer r.staff.RUnlock()
		if err := r.man(slot); err != nil {
			r.fail(err)
		}
	})
	return nil
}

// tell says a word to a process.
func (p *process) tell(word string) { _, _ = io.WriteString(p.stdin, word+"\n") }

// kill ends a process with SIGKILL, and waits for that.
func (r *run) kill(p *process) {
	r.mark(faultKill, p.name, 0, "")
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// reserve returns a worker process that no other fault has to do with, and that is as wanted, or nil. There is always
// another one that nothing is done to.
func (r *run) reserve(pick func(n int) int, wanted func(*process) bool) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	var fit []*process
	untouched := 0
	for _, p := range r.slots {
		if p == nil || p.reserved || p.ended() {
			continue
		}
		untouched++
		if wanted(p) {
			fit = append(fit, p)
		}
	}
	if untouched < 2 || len(fit) == 0 {
		return nil
	}
	p := fit[pick(len(fit))]
	p.reserved = true
	return p
}

// release is the end of reserve.
func (r *run) release(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.reserved = false
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// workers returns those of now, if they have ended or not.
func (r *run) workers() []*process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.slots), func(p *process) bool { return p == nil })
}

// retire returns the workers, and has no others follow them.
func (r *run) retire() []*process {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	return r.workers()
}

// stopWorkers tells the workers to stop, and waits until they have. It returns those that did not in time.
func (r *run) stopWorkers() (late []string) {
	all := r.retire()
	for _, p := range all {
		p.tell("go")
		p.tell("stop")
	}
	for _, p := range all {
		if !waited(context.Background(), p.exited, stopWithin) {
			late = append(late, p.name)
			r.kill(p)
		}
	}
	return late
}

// halt ends all processes that are left.
func (r *run) halt() {
	for _, p := range r.retire() {
		if !p.ended() {
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
	}
}
