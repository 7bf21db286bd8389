package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// A handler may take the lane's prepared statements away, with which its job is to be settled: with DEALLOCATE ALL,
// which the wire sees, or with pgx's DeallocateAll, which no tracer hears of. That empties pgx's own map of statements,
// so the lane has a statement of its own in it: to prepare that again costs nothing for as long as it is there.
const (
	sentinelName = "pgfifo_sentinel"
	sentinelSQL  = "SELECT"
)

// prepare prepares all statements in one round trip.
func (l *Lane) prepare(ctx context.Context, name schema.Name, texts map[string]string) error {
	names := slices.Sorted(maps.Keys(texts))
	pipeline := l.pg().StartPipeline(ctx)
	for _, stmt := range names {
		if stmt != stmtRestore { // in which a name may be the session's
			texts[stmt] = name.Qualify(texts[stmt])
		}
		pipeline.SendPrepare(stmt, texts[stmt], nil)
	}
	err := pipeline.Sync()
	for i := 0; err == nil && i < len(names); i++ {
		var res any
		if res, err = pipeline.GetResults(); err == nil {
			sd := res.(*pgconn.StatementDescription)
			sd.Name, sd.SQL = names[i], texts[names[i]] // not in the answer
			l.stmts[names[i]] = sd
		} else {
			err = fmt.Errorf("lease: prepare %s: %w", names[i], err)
		}
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	return err
}

// watchStatements prepares the sentinel.
func (l *Lane) watchStatements(ctx context.Context) (err error) {
	l.sentinel, err = l.conn.Conn().Prepare(ctx, sentinelName, sentinelSQL)
	if err != nil {
		return fmt.Errorf("lease: prepare %s: %w", sentinelName, err)
	}
	return nil
}

// prepareAgain prepares the lane's statements again if a handler may have taken them away. The transaction must not
// have failed. What the handler has set for it is put back first, as for settling.
func (l *Lane) prepareAgain(ctx context.Context) error {
	if !l.loan.taken() {
		return nil
	}
	was := l.sentinel
	if err := l.watchStatements(ctx); err != nil {
		return err
	}
	if l.sentinel == was && !l.wire.deallocated.Load() {
		return nil
	}
	if _, err := l.pg().Exec(ctx, "SET LOCAL client_encoding TO 'UTF8'").ReadAll(); err != nil {
		return fmt.Errorf("lease: prepare again: %w", err)
	}
	xid := [][]byte{appendInt(l.hold.Seen.XID)}
	if _, err := l.pg().ExecParams(ctx, l.stmts[stmtRestore].SQL, xid, nil, nil, nil).Close(); err != nil {
		return fmt.Errorf("lease: prepare again: %w", err)
	}
	pipeline := l.pg().StartPipeline(ctx)
	names := slices.Sorted(maps.Keys(l.stmts))
	for _, name := range names {
		pipeline.SendDeallocate(name) // it may be there yet
		pipeline.SendPrepare(name, l.stmts[name].SQL, nil)
	}
	err := pipeline.Sync()
	for i := 0; err == nil && i < 2*len(names); i++ {
		_, err = pipeline.GetResults()
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("lease: prepare again: %w", err)
	}
	l.wire.deallocated.Store(false)
	return nil
}
