package torture

import "github.com/pgfifo/pgfifo/fifo"

// Queues with Settings.SessionLease, whose groups a session of the worker holds without a transaction.
const (
	queueKept        = "kept"         // one job at a time
	queueKeptEach    = "kept-each"    // HandleEach, several jobs of one group
	queueKeptWide    = "kept-wide"    // HandleEach, one job each of several groups
	queueKeptLimited = "kept-limited" // at most limit jobs at once
	// queueMixed is given one lease and the other in turn. Workers have that of the time when they began.
	queueMixed = "mixed"
)

// A worker of these queues has few lanes, and runs many more jobs at once.
const (
	keptLanes    = 2
	handsPerLane = 4
)

// keepsAt reports whether the processes of a slot work these queues: half of them do, as each takes many connections.
func keepsAt(slot int) bool { return slot%2 == 0 }

// keptWorker returns the worker of these queues. It has both leases while queueMixed has the other one.
func keptWorker(o order, h *handlers) *fifo.Worker {
	worker := &fifo.Worker{
		Client: h.client, Name: o.Name, Concurrency: keptLanes, SessionConcurrency: handsPerLane * keptLanes,
		MaxAttempts: mostLives, Retry: retry, Heartbeat: heartbeat, Silence: silence, ServerSilence: serverSilence,
		SweepInterval: sweepEvery, GroupIdle: groupIdle,
	}
	worker.Handle(queueKept, h.handle)
	worker.Handle(queueKeptLimited, h.handle)
	worker.Handle(queueMixed, h.handle)
	worker.HandleQueue(queueKeptEach, fifo.Queue{BatchJobs: o.Batch, Handler: h.handle})
	worker.HandleQueue(queueKeptWide, fifo.Queue{BatchGroups: o.Batch, Handler: h.handle})
	return worker
}

// sessionQueueOf returns the queue of a group, if that is one of these.
func sessionQueueOf(group int32) string {
	switch group % 20 {
	case 7, 10:
		return queueKept
	case 11:
		return queueKeptWide
	case 12:
		return queueKeptLimited
	case 16:
		return queueKeptEach
	case 17:
		return queueMixed
	}
	return ""
}

// keeps reports whether the groups of a queue are a session's, whoever works it.
func keeps(queue string) bool {
	switch queue {
	case queueKept, queueKeptEach, queueKeptWide, queueKeptLimited:
		return true
	}
	return false
}

// mayKeep reports whether they may be.
func mayKeep(queue string) bool { return keeps(queue) || queue == queueMixed }

// own returns the server process that a turn depends on, 0 if it may be any of its worker's: the session that holds its
// group, the lane that it has its transaction of, and that which completes it.
func (c *checker) own(t *turn) int64 {
	if mayKeep(queueOf(t.group, c.batches)) {
		return 0
	}
	return t.pid
}

// hit reports whether a session that was ended was that of a turn, or held its group.
func (c *checker) hit(m *mark, t *turn) bool {
	if m.note == noteHolds {
		return keeps(queueOf(t.group, c.batches))
	}
	return t.pid == m.pid && t.pid != 0
}

// queueSettings are those of the queues that do not have the defaults.
var queueSettings = map[string]fifo.Settings{
	queueLimited:     {Limit: limit},
	queueSeveral:     {GroupLimit: severalOf},
	queueKept:        {SessionLease: true},
	queueKeptEach:    {SessionLease: true},
	queueKeptWide:    {SessionLease: true},
	queueKeptLimited: {SessionLease: true, Limit: limit},
	queueMixed:       {SessionLease: true},
}

// When the handler of such a queue asks for the job's transaction, which holds the group only from then on.
const (
	txLate  = "late"  // when all else is done
	txNever = "never" // the effect is that of a trigger, with the job's completion
)

// asks says when a handler with the task is to ask for the transaction, if not first of all.
func (t *task) asks(queue string) string {
	if !mayKeep(queue) {
		return ""
	}
	switch t.Do {
	case "", doFence, doSlow, doLate, doAway, doError, doPanic, doLater:
	default: // it needs it, or is not to be completed
		return ""
	}
	switch n := t.N % 3; {
	case n == 1:
		return txLate
	case n == 2 && queue != queueKeptEach: // that would be in another order than those of handlers beside it
		return txNever
	}
	return ""
}

// heedless reports whether a handler goes on as if nothing were wrong when its context has ended, asks for the
// transaction, and returns no error.
func (t *task) heedless() bool { return t.Tx != "" && t.N%2 == 0 }
