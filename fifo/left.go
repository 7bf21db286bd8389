package fifo

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// What a worker leaves behind: abandoned handlers that still run, and, once it ends without waiting any longer, jobs
// whose outcome nobody knows, and jobs whose outcome is known to hooks that have not returned.
type leftovers struct {
	stats   *counters
	log     *slog.Logger
	closing chan struct{} // closed when the worker waits no longer for its handlers

	mu       sync.Mutex
	closed   bool
	handlers map[<-chan error][]string // the names of their jobs
	unknown  []string
	hooked   []string
}

func nameOf(job *Job) string { return fmt.Sprintf("%v job %d", job.Group(), job.ID) }

// close lets go of the handlers that still run. It is called once.
func (l *leftovers) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.closing)
}

// handler notes an abandoned handler, until it returns.
func (l *leftovers) handler(tasks []task, result <-chan error) {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = nameOf(t.job)
	}
	n := int64(len(tasks))
	l.stats.abandoned.Add(n)
	l.stats.timesAbandoned.Add(n)
	l.mu.Lock()
	l.handlers[result] = names
	l.mu.Unlock()
	go func() {
		err := <-result
		l.mu.Lock()
		if !l.closed { // else it is to be named
			delete(l.handlers, result)
		}
		l.mu.Unlock()
		l.stats.abandoned.Add(-n)
		l.log.Info("pgfifo: abandoned handler has returned", "jobs", list(names), "error", err)
	}()
}

// lose notes a job whose outcome is not known because the worker waits no longer for the server.
func (l *leftovers) lose(job *Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.unknown = append(l.unknown, nameOf(job))
	}
}

// untold notes the jobs of an attempt that is over, while a hook or the logger is still being told of it.
func (l *leftovers) untold(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range a.results {
		l.hooked = append(l.hooked, nameOf(a.results[i].job))
	}
}

// err names what is left behind, or is nil.
func (l *leftovers) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var running []string
	for _, names := range l.handlers {
		running = append(running, names...)
	}
	var parts []string
	add := func(what string, names []string) {
		if len(names) > 0 {
			parts = append(parts, what+": "+list(names))
		}
	}
	add("handlers abandoned", running)
	add("outcome unknown", l.unknown)
	add("hooks or Logger not returned", l.hooked)
	if len(parts) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrDrainTimeout, strings.Join(parts, "; "))
}

// list returns the first few names.
func list(names []string) string {
	const most = 20
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
