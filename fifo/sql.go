package fifo

import (
	"embed"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// The statements that carry the guarantees, each with its contract on top. They are written for the schema "pgfifo"
// and run in psql as they are, but for enqueue_new.sql.
//
//go:embed sql/*.sql
var files embed.FS

// statement returns that of a file.
func statement(name string) string { return schema.Statement(files, name) }

var (
	enqueueSQL           = statement("enqueue")
	enqueueOneSQL        = statement("enqueue_one")
	dedupSQL             = statement("dedup")
	replaceSQL           = statement("replace")
	enqueueNewSQL        = "WITH job AS (" + enqueueSQL + ")" + statement("enqueue_new")
	endedSQL             = statement("ended")
	takeOutSQL           = statement("take_out")
	unblockSQL           = statement("unblock")
	settingsSQL          = statement("settings")
	configureSQL         = statement("configure")
	unlimitSQL           = statement("unlimit")
	reconfigureSQL       = statement("reconfigure")
	leasesSQL            = statement("leases")
	pauseSQL             = statement("pause")
	resumeSQL            = statement("resume")
	purgeSQL             = statement("purge")
	redriveSQL           = statement("redrive")
	deleteDeadLettersSQL = statement("delete_dead_letters")
	groupsSQL            = statement("groups")
	jobSQL               = statement("job")
	retryNowSQL          = statement("retry_now")
	lockJobSQL           = statement("lock_job")
	editSQL              = statement("edit")
	moveSQL              = statement("move")
	anySQL               = statement("any")
	canceledSQL          = statement("canceled")
	terminateSQL         = statement("terminate")
	keptSQL              = statement("kept")
	takeSQL              = statement("take")
	measureSQL           = statement("measure")
	measureSomeSQL       = statement("measure_some")
	expireSQL            = statement("expire")
	expireDedupSQL       = statement("expire_dedup")
	sweepSQL             = statement("sweep")
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

var settleStatements = schema.Prepared(files,
	succeedStmt, succeedUsedStmt, succeedBatchStmt, leaveStmt, failedBatchStmt, relaxStmt, retryStmt, snoozeStmt,
	buryStmt, forwardStmt, blockStmt, blockUsedUpStmt, discardStmt,
)
