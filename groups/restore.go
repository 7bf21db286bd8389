package groups

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// A handler may take the lane's prepared statements away, with which its job is to be settled: with DEALLOCATE ALL, which the
// wire sees, or with pgx's DeallocateAll, which no tracer hears of. That empties pgx's own map of statements, so the lane has a
// statement of its own in it: to prepare that again costs nothing for as long as it is there.
const (
	sentinelName = "pgfifo_sentinel"
	sentinelSQL  = "SELECT"
)

// watchStatements prepares the sentinel.
func (l *Lane) watchStatements(ctx context.Context) (err error) {
	l.sentinel, err = l.conn.Conn().Prepare(ctx, sentinelName, sentinelSQL)
	if err != nil {
		return fmt.Errorf("groups: prepare %s: %w", sentinelName, err)
	}
	return nil
}

// restore prepares the lane's statements again if a handler may have taken them away. The transaction must not have failed.
func (l *Lane) restore(ctx context.Context) error {
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
		return fmt.Errorf("groups: prepare again: %w", err)
	}
	l.wire.deallocated.Store(false)
	return nil
}
