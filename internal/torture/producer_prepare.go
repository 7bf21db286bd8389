package torture

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// prepared enqueues in a transaction that is prepared, and committed a little later, as a transaction manager does.
func (p *producer) prepared(ctx context.Context, linger time.Duration, msgs []fifo.Message) ([]fifo.Receipt, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, notCommitted{err}
	}
	pid := conn.Conn().PgConn().PID()
	name := fmt.Sprintf("torture %s %d", p.Name, p.prepares.Add(1))
	receipts, err := p.prepareOne(ctx, conn.Conn(), name, msgs)
	conn.Release()
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &notCommitted{}):
		return nil, err
	case errors.As(err, &refused) && refused.Severity == "ERROR":
		return nil, notCommitted{err}
	case err != nil: // it may be prepared, or be about to
		if !p.ended(ctx, pid) {
			return nil, err
		}
	}
	_ = pause.For(ctx, linger)
	return receipts, p.commitPrepared(ctx, name, err)
}

func (p *producer) prepareOne(ctx context.Context, conn *pgx.Conn, name string, msgs []fifo.Message,
) ([]fifo.Receipt, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, notCommitted{err}
	}
	defer func() { _ = tx.Rollback(ctx) }() // there is none any more when it has been prepared
	receipts, err := p.client.EnqueuePgxTx(ctx, tx, msgs...)
	if err != nil {
		return nil, notCommitted{err}
	}
	_, err = tx.Exec(ctx, "PREPARE TRANSACTION '"+name+"'")
	return receipts, err
}

// ended waits until the server has ended a session, and reports whether it has.
func (p *producer) ended(ctx context.Context, pid uint32) bool {
	return until(ctx, time.Minute, func() bool {
		there := true
		err := p.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid).Scan(&there)
		return err == nil && !there
	})
}

// commitPrepared commits a prepared transaction, however long the server is down. why is the error of preparing it:
// then it may not be there.
func (p *producer) commitPrepared(ctx context.Context, name string, why error) (err error) {
	const unknown = "42704"
	sent := false // once, with no answer
	until(ctx, time.Minute, func() bool {
		var refused *pgconn.PgError
		_, err = p.pool.Exec(ctx, "COMMIT PREPARED '"+name+"'")
		err = inCommit(err)
		switch {
		case err == nil:
			return true
		case !failed(err):
			sent = true
			return false
		case !errors.As(err, &refused) || refused.Severity != "ERROR": // the server is down
			return false
		case refused.Code == unknown && sent: // that has done it, unless it was not prepared
			err = inCommit(why)
		case refused.Code == unknown && why != nil:
			err = notCommitted{why}
		case refused.Code == "55000": // it is at it
			return false
		}
		return true
	})
	return err
}
