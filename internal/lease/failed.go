package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

var errNotRolledBack = errors.New(
	"lease: a statement failed in the job's transaction and the handler did not roll it back")

// notRolledBack returns the error of a handler that has left its transaction failed, with that of the first statement
// that did so, if the wire has seen it.
func (w *wire) notRolledBack() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		return errNotRolledBack
	}
	return fmt.Errorf("%w: %w", errNotRolledBack, failedStatement{w.first})
}

const inFailedTransaction = "25P02"

// note records what became of a handler's statement, and how many rows it has written. One that succeeds shows that
// nothing has failed, or that the failure is rolled back.
func (w *wire) note(rows int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pgErr := (*pgconn.PgError)(nil)
	switch {
	case !w.lent:
	case err == nil:
		w.first = nil
		w.wrote = w.wrote || rows > 0
	case w.first == nil && errors.As(err, &pgErr) && pgErr.Code != inFailedTransaction:
		w.first = pgErr
	}
}

type writingKey struct{}

// Writing returns a context for a statement that writes and whose tag does not say so: WITH ... INSERT ... SELECT.
func Writing(ctx context.Context) context.Context { return context.WithValue(ctx, writingKey{}, true) }

// writtenBy returns how many rows a statement has written; with a Writing context, over 0 if it has written any.
func writtenBy(ctx context.Context, tag pgconn.CommandTag) int64 {
	verb, _, _ := strings.Cut(tag.String(), " ")
	if ctx.Value(writingKey{}) == nil && !slices.Contains([]string{"INSERT", "UPDATE", "DELETE", "MERGE"}, verb) {
		return 0
	}
	return tag.RowsAffected()
}

// A failedStatement is the server's error about a statement that the handler has not returned. So its text has no
// values: those may be in what the server says of data and of the text of a statement, and in what a function raises.
type failedStatement struct{ err *pgconn.PgError }

// naming are the classes of errors in which the server names what there is in the database, except syntaxError.
var naming = []string{"0A", "23", "25", "40", "42", "53", "55", "57"}

const syntaxError = "42601"

func (f failedStatement) Error() string {
	code, raised := f.err.Code, f.err.Routine == "exec_stmt_raise" // by PL/pgSQL
	if len(code) == 5 && slices.Contains(naming, code[:2]) && code != syntaxError && !raised {
		return f.err.Error()
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", f.err.Severity, code)
}

func (f failedStatement) Unwrap() error { return f.err }
