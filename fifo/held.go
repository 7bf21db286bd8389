package fifo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// A holding is what a seat holds, or is about to, and how an operator, or the end of the worker, cancels that. The
// seat's own goroutine says what is held; others cancel.
type holding struct {
	mu       sync.Mutex
	stop     context.CancelCauseFunc // nil unless a handler runs
	lent     []task                  // its jobs
	held     []heldGroup             // the groups whose jobs it holds
	canceled []canceled              // those of held that are canceled, or whose queue is
	claimed  time.Time               // when the last claim was sent
	claiming bool                    // its answer has not come
	early    []ruling                // that came before the answer
	nth      int                     // its number among all that the seat has had
	shutting bool
}

// sent says that a claim is sent now.
func (h *holding) sent() {
	h.mu.Lock()
	h.claimed, h.claiming = time.Now(), true
	h.mu.Unlock()
}

// number returns which holding this is.
func (h *holding) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nth
}

// cancelIf cancels the running handler's context, if it is that of a holding.
func (h *holding) cancelIf(nth int, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nth == nth && h.stop != nil {
		h.stop(cause)
	}
}

// A heldGroup is one that the seat holds, with the token of a session's claim, or 0.
type heldGroup struct {
	groups.Key
	token int64
}

// have says whose jobs the seat holds from now on. Nil: nobody's.
func (h *holding) have(hold *lease.Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	early := h.early
	h.held, h.canceled, h.nth, h.claiming, h.early = h.held[:0], nil, h.nth+1, false, nil
	for head := range hold.Heads() {
		h.held = append(h.held, heldGroup{head.Key, head.Token()})
	}
	for _, r := range early {
		h.obey(r)
	}
}

// A ruling is the database's answer about a group (or a queue, if the group id is empty) that an operator may have
// canceled: is it paused, and what was the token of the group's last claim by a session?
type ruling struct {
	key    groups.Key
	asked  time.Time // before the database was
	paused bool
	token  int64
}

// A canceled group, or queue, and why its handlers are to end.
type canceled struct {
	key   groups.Key
	cause error
}

// hear makes the seat obey a ruling. One that comes before the answer to a claim is kept for that. The context of a
// handler that runs is ended; handlers that have not begun do not begin.
func (h *holding) hear(r ruling) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.claimed.Before(r.asked): // the claim has seen that by itself
	case h.claiming:
		h.early = append(h.early, r)
	default:
		h.obey(r)
	}
}

// obey cancels what the seat holds of a group, or of a queue where the group id is empty, if the ruling says so; the
// caller has the lock. A token above the seat's own says that the group was taken from it.
func (h *holding) obey(r ruling) {
	c := canceled{r.key, ErrCanceled}
	taken := func(g heldGroup) bool { return g.Key == r.key && g.token != 0 && r.token > g.token }
	switch {
	case !h.holds(r.key):
		return
	case slices.ContainsFunc(h.held, taken):
		c.cause = ErrLost
	case !r.paused:
		return
	}
	h.canceled = append(h.canceled, c)
	if cause := h.cause(h.lent); cause != nil { // a handler runs: else nothing is lent
		h.stop(cause)
	}
}

// holds reports whether the seat holds a group, or one of a queue; the caller has the lock.
func (h *holding) holds(key groups.Key) bool {
	return slices.ContainsFunc(h.held, func(g heldGroup) bool { return meant(g.Key, key) })
}

// concerned reports whether the seat holds such a group, or may with the answer to its claim.
func (h *holding) concerned(key groups.Key) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claiming || h.holds(key)
}

// meant reports whether a group is the one that is named, or is of the queue if no group is.
func meant(group, key groups.Key) bool {
	return group.Queue == key.Queue && (key.GroupID == "" || key.GroupID == group.GroupID)
}

// cause returns why one of the tasks is canceled, or nil; the caller has the lock. The Jobs are the handler's: what is
// held says whose they are.
func (h *holding) cause(tasks []task) error {
	for _, c := range h.canceled {
		if slices.ContainsFunc(tasks, func(t task) bool { return meant(t.held.Key, c.key) }) {
			return c.cause
		}
	}
	return nil
}

// toEnd returns why an operator wants the handler of the tasks to end, or nil.
func (h *holding) toEnd(tasks []task) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause(tasks)
}

// watch lets others cancel the handler that is about to run; the returned function ends that.
func (h *holding) watch(stop context.CancelCauseFunc, tasks []task) func() {
	h.mu.Lock()
	h.stop, h.lent = stop, tasks
	switch cause := h.cause(tasks); {
	case h.shutting:
		stop(ErrShutdown)
	case cause != nil:
		stop(cause)
	}
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		h.stop, h.lent = nil, nil
		h.mu.Unlock()
		stop(nil)
	}
}

// cancel cancels the running handler's context, if there is one.
func (h *holding) cancel(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		h.stop(cause)
	}
}

// shut cancels the running handler's context, and that of one whose claim is under way.
func (h *holding) shut() {
	h.mu.Lock()
	h.shutting = true
	h.mu.Unlock()
	h.cancel(ErrShutdown)
}
