package fifo

import (
	"errors"

	"github.com/pgfifo/pgfifo/internal/lease"
)

// A GiveUp says what becomes of a job that has used up its attempts. One whose handler returns a DeadLetter becomes a
// dead letter, or moves to the DeadLetterQueue, in any case. So does one whose payload JSON cannot decode, unless its
// queue has BlockGroup.
type GiveUp int

const (
	// ToDeadLetters moves the job to the dead letters, or to Queue.DeadLetterQueue; its group goes on.
	ToDeadLetters GiveUp = iota
	// BlockGroup stops the group, and the job stays in its place. Nothing more of the group starts. With a GroupLimit,
	// what runs goes on. Client.Pauses lists the group, and so does Groups with Paused. Both name the job.
	//
	// Two calls let the group go on. Scope.Resume gives the job all its attempts again; mend it before (Scope.Edit), or
	// what it depends on. Scope.Bury, with Pause.Job, moves it to the dead letters. Delete, Purge and Move, which take
	// the job away, let the group go on as well.
	//
	// A job may use up its attempts while another one blocks the group, or while somebody pauses or resumes it in an
	// open transaction. Then it is tried again, after a second and longer each time, until it blocks the group, and
	// Blocked is told each time. If an operator has paused the group meanwhile, the pause stays as it is, and names the
	// job as well.
	//
	// A job whose payload JSON cannot decode blocks the group at its first attempt. One whose handler returns
	// DeadLetter becomes a dead letter all the same, and stops nothing.
	BlockGroup
	// Discard deletes the job; its group goes on. What is left is an error in the log, and the Settled hook.
	Discard
)

// Headers of a job that has come from another queue, where it had used up its attempts: see Queue.DeadLetterQueue. Its
// Failures are those that it had there.
const (
	OriginQueue    = "pgfifo-origin-queue"    // the queue
	OriginID       = "pgfifo-origin-id"       // the job's id there
	OriginAttempts = "pgfifo-origin-attempts" // how many it had there
	OriginError    = "pgfifo-origin-error"    // of the last one, as in Failure.Error
)

var (
	discardStmt     = settles("discard")
	blockStmt       = settles("block")
	blockUsedUpStmt = settles("block_used_up")
	forwardStmt     = settles("forward")
	buryStmt        = settles("bury")
)

// giveUpCall returns the call that records the last attempt of a job. args begin with its key and attempts, how is the
// failure as failCall has it.
func (q *Queue) giveUpCall(r *result, args, how [][]byte) lease.Call {
	err := r.failure.err
	switch up := q.OnGiveUp; {
	case says[deadLetter](err), says[undecodable](err) && up != BlockGroup:
	case up == Discard:
		r.outcome = Discarded
		return lease.Call{Statement: discardStmt, Args: args, Job: r.job.ID}
	case up == BlockGroup:
		r.outcome = Blocked
		reason := "all its attempts are used up"
		switch {
		case r.failure == usedUp:
			return lease.Call{Statement: blockUsedUpStmt, Args: append(args, []byte(reason))}
		case says[undecodable](err):
			reason = textOf(err)
		default:
			reason += ": " + textOf(err)
		}
		reason = scrub(reason, MaxReasonBytes)
		return lease.Call{Statement: blockStmt, Args: append(append(args, how...), []byte(reason)), Job: r.job.ID}
	}
	r.outcome = Buried
	if to := q.DeadLetterQueue; to != "" {
		r.moved = to
		return lease.Call{Statement: forwardStmt, Args: append(append(args, how...), []byte(to)), Job: r.job.ID}
	}
	return lease.Call{Statement: buryStmt, Args: append(args, how...), Job: r.job.ID}
}

// usedUp is the failure of a job that blocks its group before its handler begins.
var usedUp = &failure{kind: KindError, err: errors.New("fifo: the job had used up its attempts before")}

// blocks reports whether a claimed job is to block its group before its handler begins. That is so in a queue with
// BlockGroup if the job has no attempt left: it failed while another job blocked the group, or MaxAttempts was higher
// then. In other queues such a job is tried once more.
func (q *Queue) blocks(h *lease.Held) bool {
	return q.OnGiveUp == BlockGroup && h.Attempts >= q.maxAttempts(h)
}
