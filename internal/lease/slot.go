package lease

import "strings"

// A claim of a queue that has a limit (Request.Slot) locks a slot of the queue before its groups, in one statement
// (sql/lock_slot.sql), and then looks at the jobs with the statements of every claim, changed in two places:
//
//   - The look is gated on the lock of the group's row. That the transaction has an id says nothing here: the slot has
//     given it one.
//   - The mark that stops claims without a slot does not stop it. A pause does.
//
// With a parameter for that instead, every claim would cost 3 µs more, a twentieth: the look at the group's row is set
// up with the others also where it is not made.

var slotLooks = map[string]string{
	stmtClaim:      stmtClaimSlot,
	stmtClaimBatch: stmtClaimBatchSlot,
	stmtClaimMany:  stmtClaimManySlot,
}

var withSlot = strings.NewReplacer(
	"pg_current_xact_id_if_assigned() IS NOT NULL",
	"(SELECT g.xmax FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2 AND g.session IS NULL)\n"+
		"      = pg_current_xact_id_if_assigned()::xid",
	"AND p.queue = $1)", "AND p.queue = $1 AND NOT p.limited)",
)
