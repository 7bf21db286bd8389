package fifo

import (
	"context"
)

// Fence returns the fencing token of the attempt that is under way, for effects outside the database: a number higher
// than that of every earlier holder of the job's group, committed before it is returned.
//
// A worker that was frozen or cut off may go on with its job without knowing that somebody else has it by now. Send the
// token with each write to another system, have that system remember the highest one that it has seen for the group,
// and refuse what comes with a lower one: then nothing that a former holder sends is taken any more once its successor
// has written.
//
// The first call of an attempt takes the job's transaction, as Tx does, writes one row through a connection of the
// client's pool, and waits until that is durable; later ones return the same number. Jobs that do not ask pay nothing.
// In a queue with Settings.SessionLease the claim has drawn the number, and a call asks nobody.
// Numbers of one group grow, with gaps. A failover to a server that lacks the newest commits may give out numbers anew.
//
// Where several jobs of a group may run at once (Settings.GroupLimit), either of two that do may have the higher
// number. Then a number is higher only than those of earlier attempts at the same job: have the other system remember
// them by job.
//
// It returns ErrLost if the attempt's transaction has ended, or the job is held no more, and ErrNoJob outside a
// handler.
func (j *Job) Fence(ctx context.Context) (int64, error) {
	loan, err := j.lent()
	if err != nil {
		return 0, err
	}
	return loan.Fence(ctx, j.Group())
}
