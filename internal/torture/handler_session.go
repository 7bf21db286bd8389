package torture

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A setting is what a handler may change of its session for the time of its transaction.
type setting struct {
	sql    string
	shared bool // it does no harm to the next job of a batch, whose transaction it is, too
}

// forget is what a handler calls to have no prepared statements.
const forget = "pgx: DeallocateAll"

// settings returns those that handlers change.
func settings(o order) []setting {
	list := []setting{
		{sql: "SET LOCAL client_encoding = 'LATIN1'"},
		{sql: "SET LOCAL search_path = pg_temp"},
		{sql: "SET LOCAL statement_timeout = 500"}, // which the statement that puts it back has to keep, too
		{sql: "SET LOCAL lock_timeout = 1", shared: true},
		{sql: "DEALLOCATE ALL"},
		{sql: forget},
	}
	if o.Tenant != "" {
		list = append(list, setting{sql: "SET LOCAL ROLE " + pgx.Identifier{o.Tenant}.Sanitize()})
	}
	if o.Super {
		list = append(list, setting{sql: "SET LOCAL session_replication_role = replica", shared: true})
	}
	return list
}

// set changes a setting: its job is to be done all the same.
func (a *attempt) set(ctx context.Context) error {
	list := settings(a.order)
	s := list[int(a.N)%len(list)]
	if a.job.Queue != queuePlain && a.job.Queue != queueSeveral && !s.shared {
		return nil
	}
	if s.sql == forget {
		return a.tx.Conn().DeallocateAll(ctx)
	}
	_, err := a.tx.Exec(ctx, s.sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// openTenant makes a role without any right, but to write effects, that workers may take on.
func (r *run) openTenant(ctx context.Context) error {
	name := r.database + "_tenant"
	_, err := r.pool.Exec(ctx, "DROP ROLE IF EXISTS "+name+"; CREATE ROLE "+name+"; GRANT "+name+" TO CURRENT_USER")
	if err == nil {
		r.tenant = name
	}
	return err
}

// nap has a statement take a while, which looks at its session. That must listen to nothing: the cluster's queue of
// notices would wait for the end of its transaction. And its snapshots must be as old as its statements.
func (a *attempt) nap(ctx context.Context) error {
	const sql = `SELECT coalesce('listens to ' || (SELECT min(c) FROM pg_listening_channels() c),
		'is ' || nullif(current_setting('transaction_isolation'), 'read committed'), '') FROM pg_sleep(0.02)`
	var amiss string
	err := a.tx.QueryRow(ctx, sql).Scan(&amiss)
	if amiss != "" {
		a.note(evAmiss, 0, amiss)
	}
	return err
}

// late asks for its token only after whatever the harness does to it, and does not heed its context: a former holder
// must not be given one.
func (a *attempt) late(ctx context.Context) error {
	a.gate.wait(context.WithoutCancel(ctx), lingering)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeze)
	defer cancel()
	return a.outside(ctx)
}
