package fifo

import (
	_ "embed"
)

// The statements that carry the guarantees, each with its contract on top. They are written for the schema "pgfifo"
// and run in psql as they are.
var (
	//go:embed sql/enqueue.sql
	enqueueSQL string
	//go:embed sql/enqueue_one.sql
	enqueueOneSQL string
	//go:embed sql/dedup.sql
	dedupSQL string
	//go:embed sql/replace.sql
	replaceSQL string
	//go:embed sql/enqueue_new.sql
	enqueueNewSQL string
	//go:embed sql/ended.sql
	endedSQL string
	//go:embed sql/succeed.sql
	succeedSQL string
	//go:embed sql/succeed_used.sql
	succeedUsedSQL string
	//go:embed sql/succeed_batch.sql
	succeedBatchSQL string
	//go:embed sql/leave.sql
	leaveSQL string
	//go:embed sql/failed_batch.sql
	failedBatchSQL string
	//go:embed sql/relax.sql
	relaxSQL string
	//go:embed sql/retry.sql
	retrySQL string
	//go:embed sql/snooze.sql
	snoozeSQL string
	//go:embed sql/block.sql
	blockSQL string
	//go:embed sql/block_used_up.sql
	blockUsedUpSQL string
	//go:embed sql/discard.sql
	discardSQL string
	//go:embed sql/take_out.sql
	takeOutSQL string
	//go:embed sql/unblock.sql
	unblockSQL string
	//go:embed sql/bury.sql
	burySQL string
	//go:embed sql/forward.sql
	forwardSQL string
	//go:embed sql/settings.sql
	settingsSQL string
	//go:embed sql/configure.sql
	configureSQL string
	//go:embed sql/unlimit.sql
	unlimitSQL string
	//go:embed sql/reconfigure.sql
	reconfigureSQL string
	//go:embed sql/leases.sql
	leasesSQL string
	//go:embed sql/pause.sql
	pauseSQL string
	//go:embed sql/resume.sql
	resumeSQL string
	//go:embed sql/purge.sql
	purgeSQL string
	//go:embed sql/redrive.sql
	redriveSQL string
	//go:embed sql/delete_dead_letters.sql
	deleteDeadLettersSQL string
	//go:embed sql/groups.sql
	groupsSQL string
	//go:embed sql/job.sql
	jobSQL string
	//go:embed sql/retry_now.sql
	retryNowSQL string
	//go:embed sql/lock_job.sql
	lockJobSQL string
	//go:embed sql/edit.sql
	editSQL string
	//go:embed sql/move.sql
	moveSQL string
	//go:embed sql/any.sql
	anySQL string
	//go:embed sql/canceled.sql
	canceledSQL string
	//go:embed sql/terminate.sql
	terminateSQL string
	//go:embed sql/kept.sql
	keptSQL string
	//go:embed sql/take.sql
	takeSQL string
	//go:embed sql/measure.sql
	measureSQL string
	//go:embed sql/measure_some.sql
	measureSomeSQL string
	//go:embed sql/expire.sql
	expireSQL string
	//go:embed sql/expire_dedup.sql
	expireDedupSQL string
	//go:embed sql/sweep.sql
	sweepSQL string
)

// Names of the statements that settle a job, prepared on every lane.
const (
	succeedStmt      = "pgfifo_succeed"
	succeedUsedStmt  = "pgfifo_succeed_used"
	succeedBatchStmt = "pgfifo_succeed_batch"
	leaveStmt        = "pgfifo_leave"
	failedBatchStmt  = "pgfifo_failed_batch"
	relaxStmt        = "pgfifo_relax"
	retryStmt        = "pgfifo_retry"
	snoozeStmt       = "pgfifo_snooze"
	buryStmt         = "pgfifo_bury"
	forwardStmt      = "pgfifo_forward"
	blockStmt        = "pgfifo_block"
	blockUsedUpStmt  = "pgfifo_block_used_up"
	discardStmt      = "pgfifo_discard"
)

var settleStatements = map[string]string{
	succeedStmt: succeedSQL, succeedUsedStmt: succeedUsedSQL, succeedBatchStmt: succeedBatchSQL,
	failedBatchStmt: failedBatchSQL, retryStmt: retrySQL, snoozeStmt: snoozeSQL, buryStmt: burySQL,
	blockStmt: blockSQL, blockUsedUpStmt: blockUsedUpSQL, discardStmt: discardSQL, leaveStmt: leaveSQL,
	relaxStmt: relaxSQL, forwardStmt: forwardSQL,
}
