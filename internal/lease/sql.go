package lease

import (
	_ "embed"
)

// The statements that carry the guarantees, each with its contract on top. They are written for the schema "pgfifo"
// and run in psql as they are.
var (
	//go:embed sql/lock.sql
	lockSQL string
	//go:embed sql/lock_many.sql
	lockManySQL string
	//go:embed sql/lock_slot.sql
	lockSlotSQL string
	//go:embed sql/lock_shared.sql
	lockSharedSQL string
	//go:embed sql/lock_next.sql
	lockNextSQL string
	//go:embed sql/claim_shared.sql
	claimSharedSQL string
	//go:embed sql/ahead.sql
	aheadSQL string
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/claim_batch.sql
	claimBatchSQL string
	//go:embed sql/claim_many.sql
	claimManySQL string
	//go:embed sql/evidence.sql
	evidenceSQL string
	//go:embed sql/mark.sql
	markSQL string
	//go:embed sql/unmark.sql
	unmarkSQL string
	//go:embed sql/relock.sql
	relockSQL string
	//go:embed sql/relock_shared.sql
	relockSharedSQL string
	//go:embed sql/keep_lock.sql
	keepLockSQL string
	//go:embed sql/keep_claim.sql
	keepClaimSQL string
	//go:embed sql/keep_behind.sql
	keepBehindSQL string
	//go:embed sql/keep_free.sql
	keepFreeSQL string
	//go:embed sql/keep_slots.sql
	keepSlotsSQL string
	//go:embed sql/keep_slots_free.sql
	keepSlotsFreeSQL string
	//go:embed sql/keep_take.sql
	keepTakeSQL string
	//go:embed sql/keep_take_jobs.sql
	keepTakeJobsSQL string
	//go:embed sql/keep_same.sql
	keepSameSQL string
	//go:embed sql/keep_end.sql
	keepEndSQL string
	//go:embed sql/keep_done.sql
	keepDoneSQL string
	//go:embed sql/fence_claim.sql
	fenceClaimSQL string
	//go:embed sql/fence.sql
	fenceSQL string
)

const (
	beginSQL          = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" // whatever the database's defaults are
	commitSQL         = "COMMIT"
	commitAndChainSQL = "COMMIT AND CHAIN" // COMMIT and BEGIN in one statement, with the same isolation
)
