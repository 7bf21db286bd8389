package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// ErrPooled is returned by Dial and Connect when a pooler shares the connection's session with others, as pgbouncer
// does in transaction mode. A worker's locks would hold there, but its settings would not: they would be missing on its
// own transactions, and be left behind on those of other programs.
var ErrPooled = errors.New("lease: a pooler shares the worker's session with others: connect directly, " +
	"or in session mode")

// pooledTries is how often to look whether two connections share a session: beside other clients at work, which session
// a pooler gives is chance. Only a worker behind a pooler pays for it, three round trips each.
const pooledTries = tuning.Few * tuning.Many

// ownSession returns the pid of the new connection's session, and ErrPooled if it is not a session of its own. Nothing
// has been set on it yet.
//
// A server tells its backend's pid when a session begins. A pooler tells something else, in any mode; then another
// transaction is opened through the same pooler, to see whether that gets this connection's session, or this connection
// another one.
func (d *Dialer) ownSession(ctx context.Context, l *link) (pid uint32, err error) {
	conn := l.pg()
	pid, err = backend(ctx, conn)
	if err != nil || pid == conn.PID() || l.control == nil {
		return pid, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.bounds.Silence)
	defer cancel()
	d.probing.Lock()
	defer d.probing.Unlock()
	for range pooledTries {
		if err := rival(ctx, l.control, conn, pid); err != nil {
			return 0, err
		}
	}
	return pid, nil
}

// rival returns ErrPooled if a transaction of the pool's gets the session, or the connection another one beside it.
func rival(ctx context.Context, control *pgxpool.Pool, conn *pgconn.PgConn, pid uint32) error {
	pooled, err := control.Acquire(ctx)
	if err != nil {
		return err
	}
	defer pooled.Release()
	rival := pooled.Conn().PgConn()
	// A pooler gives the session that was used last first: that has to be this connection's, not the former rival's.
	if err := same(ctx, conn, pid); err != nil {
		return err
	}
	_, err = rival.Exec(ctx, "BEGIN").ReadAll()
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) { // refused in statement mode
		return fmt.Errorf("%w: %w", ErrPooled, err)
	}
	if err != nil {
		return err
	}
	defer func() { _, _ = rival.Exec(ctx, "COMMIT").ReadAll() }()
	other, err := backend(ctx, rival)
	if err != nil {
		return err
	}
	if other == pid {
		return ErrPooled
	}
	return same(ctx, conn, pid)
}

// same returns ErrPooled if the connection is answered by another process than pid.
func same(ctx context.Context, conn *pgconn.PgConn, pid uint32) error {
	again, err := backend(ctx, conn)
	if err == nil && again != pid {
		err = ErrPooled
	}
	return err
}

// backend returns the pid of the server's process that answers.
func backend(ctx context.Context, conn *pgconn.PgConn) (uint32, error) {
	results, err := conn.Exec(ctx, "SELECT pg_catalog.pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 {
		return 0, errors.New("lease: no answer to pg_backend_pid")
	}
	pid, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	return uint32(pid), err
}

// A lane that a Borrower borrows may be a pooler's client (Dialer.Direct): each of its transactions has another
// session. So it sets nothing for the session, and prepares nothing: statements go as texts, and what a lane sets for
// its session is set for each transaction.

// local returns the settings of a session, as far as a transaction can have them: plans, and how long the server waits
// for a worker that says nothing, or has died in a statement.
func local(session [][2]string) (set [][2]string) {
	for _, kv := range session {
		if slices.Contains(localSettings, kv[0]) {
			set = append(set, kv)
		}
	}
	return append(set, plannerSettings...)
}

// localSettings are those of settings that say something of a transaction; a pooler's own connection has its own TCP.
var localSettings = []string{"idle_in_transaction_session_timeout", connectionCheck, "transaction_timeout"}
