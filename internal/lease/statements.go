package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// statements are those of a session, by name.
type statements map[string]*pgconn.StatementDescription

const ( // names of prepared statements
	stmtBegin      = "pgfifo_begin"
	stmtCommit     = "pgfifo_commit"
	stmtChain      = "pgfifo_chain"
	stmtLock       = "pgfifo_lock"
	stmtLockMany   = "pgfifo_lock_many"
	stmtAhead      = "pgfifo_ahead"
	stmtClaim      = "pgfifo_claim"
	stmtClaimBatch = "pgfifo_claim_batch"
	stmtClaimMany  = "pgfifo_claim_many"
	stmtEvidence   = "pgfifo_evidence"
	stmtUnmark     = "pgfifo_unmark"
	stmtCharge     = "pgfifo_charge"
	stmtRestore    = "pgfifo_restore"
	stmtPaused     = "pgfifo_paused"

	stmtKeepTake     = "pgfifo_keep_take"
	stmtKeepTakeJobs = "pgfifo_keep_take_jobs"
	stmtKeepSame     = "pgfifo_keep_same"
	stmtKeepEnd      = "pgfifo_keep_end"
	stmtKeepDone     = "pgfifo_keep_done"
	stmtBound        = "pgfifo_bound"
	stmtBoundRest    = "pgfifo_bound_rest"
	stmtBoundBy      = "pgfifo_bound_by"
	stmtBarely       = "pgfifo_barely"
	stmtWaitToTake   = "pgfifo_wait_to_take"
	stmtWaitLong     = "pgfifo_wait_long"
	stmtLocal        = "pgfifo_local"

	stmtLockSlot       = "pgfifo_lock_slot"
	stmtClaimSlot      = "pgfifo_claim_slot"
	stmtClaimBatchSlot = "pgfifo_claim_batch_slot"
	stmtClaimManySlot  = "pgfifo_claim_many_slot"

	stmtLockGroupSlot  = "pgfifo_lock_group_slot"
	stmtLockNext       = "pgfifo_lock_next"
	stmtClaimGroupSlot = "pgfifo_claim_group_slot"
)

// unprepared returns statements as they are before they are prepared.
func unprepared(name schema.Name, some ...map[string]string) statements {
	s := make(statements)
	for _, texts := range some {
		for stmt, text := range texts {
			s.add(stmt, name.Qualify(text))
		}
	}
	return s
}

func (s statements) add(name, sql string) {
	s[name] = &pgconn.StatementDescription{Name: name, SQL: sql}
}

// isPrepared reports whether the session has the statement, as far as is known: an answer that was not read does not
// count.
func isPrepared(s *pgconn.StatementDescription) bool { return s.ParamOIDs != nil }

// parse returns an error if the server does not understand one of them: a table is missing, say. It leaves nothing in
// the session.
func (s statements) parse(ctx context.Context, conn *pgconn.PgConn) error {
	names := slices.Sorted(maps.Keys(s))
	p := &pipeline{Pipeline: conn.StartPipeline(ctx)}
	for _, name := range names {
		p.SendPrepare("", s[name].SQL, nil)
	}
	err := p.Sync()
	for i := 0; err == nil && i < len(names); i++ {
		if _, err = p.GetResults(); err != nil {
			err = fmt.Errorf("lease: prepare %s: %w", names[i], err)
		}
	}
	return p.end(err)
}

// forget makes all of them unprepared, except stmtRestore, which reads no table: see prepareRestore.
func (s statements) forget() {
	for name, stmt := range s {
		if name != stmtRestore {
			s.add(name, stmt.SQL)
		}
	}
}
