package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// statements are those of a session, by name.
type statements map[string]*pgconn.StatementDescription

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

// forget makes all of them unprepared but stmtRestore, which reads no table: see prepareRestore.
func (s statements) forget() {
	for name, stmt := range s {
		if name != stmtRestore {
			s.add(name, stmt.SQL)
		}
	}
}

// lookSQL returns a row if stmtRestore is prepared. It stands for all statements of the lane.
const lookSQL = "; SELECT FROM pg_catalog.pg_prepared_statements " +
	"WHERE name OPERATOR(pg_catalog.=) '" + stmtRestore + "'"

// prepareAgain makes the lane prepare its statements again at their next use, if a handler may have taken them away:
// its job is settled with them. The transaction must not have failed. stmtRestore is used first: it is parsed in the
// lane's encoding, and with backslashes that escape nothing, whatever the handler has set.
func (l *Lane) prepareAgain(ctx context.Context) error {
	if l.pooled || !l.loan.used() {
		return nil
	}
	if !l.stream.deallocated.Load() && (!l.wary.Load() || l.loan.prepared) {
		return nil
	}
	const parsing = "SET LOCAL client_encoding TO 'UTF8'; SET LOCAL standard_conforming_strings TO on"
	results, err := l.pg().Exec(ctx, parsing+lookSQL).ReadAll()
	if err != nil {
		return fmt.Errorf("lease: prepare again: %w", err)
	}
	if len(results[2].Rows) == 0 { // they were taken away, and so were those of pgx, which the next handler would use
		l.stream.spoiled.Store(true)
	}
	l.stmts.forget()
	l.stmts.add(stmtRestore, l.stmts[stmtRestore].SQL)
	l.stream.deallocated.Store(false)
	l.loan.prepared = true
	return nil
}

// prepareRestore prepares what puts back the settings that a handler has changed, before a handler runs: later, only
// prepareAgain has it parsed under the right settings. The other statements are parsed after it has run, when the
// handler's encoding and search path are put back.
func (l *Lane) prepareRestore(ctx context.Context) error {
	p := l.pipeline(ctx)
	p.prepare(stmtRestore)
	if err := p.exchange(); err != nil {
		return fmt.Errorf("lease: prepare: %w", err)
	}
	return nil
}

// ErrUnsettled is returned when a session could not settle what its handler has done, and nothing is wrong with that:
// the lane's statements were taken away unseen, or a late cancel request met the settling. All is undone, and the jobs
// may run again, on another session.
var ErrUnsettled = errors.New("lease: the session could not settle its job, which has not failed")

// unsettled makes an error of settling ErrUnsettled if it is one. A function, or DO, can take statements away without
// anybody seeing it. After the first time, the Dialer's lanes prepare them again behind each handler that has had the
// transaction, so the job that did it is completed when it runs again.
func (l *Lane) unsettled(err error) error {
	switch code := sqlState(err); {
	case code == statementCancelled && l.stream.late.Load():
	case code == noSuchStatement && l.loan.used() && !l.loan.prepared:
		l.wary.Store(true)
	default:
		return err
	}
	l.stream.spoiled.Store(true)
	return fmt.Errorf("%w: %w", ErrUnsettled, err)
}
