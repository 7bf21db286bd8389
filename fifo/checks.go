package fifo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// databaseSQL tells a database from all others: by its name from those of the same server, and by when its server has
// started from those of other servers, also of a copy.
const databaseSQL = `SELECT pg_catalog.current_database()::text,
	extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text`

// checkDirect returns ErrInvalidWorker if a worker's Direct leads to another database than the Client's pool: jobs
// would be worked in one, and marked in the other. It dials both, since the application may have all of the pool.
func checkDirect(ctx context.Context, d *lease.Dialer) error {
	if d.Direct == nil {
		return nil
	}
	var direct, pooled [2]string
	err := identify(ctx, d.Connect, &direct)
	if err == nil {
		err = identify(ctx, d.ConnectPooled, &pooled)
	}
	switch {
	case err != nil:
		return dialed(err, 1, 1)
	case direct != pooled:
		return fmt.Errorf("%w: Direct leads to the database %q, and the Client's pool to %q, or to one of that name "+
			"on another server", ErrInvalidWorker, direct[0], pooled[0])
	}
	return nil
}

func identify(ctx context.Context, dial func(context.Context) (*pgx.Conn, error), database *[2]string) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	return conn.QueryRow(ctx, databaseSQL).Scan(&database[0], &database[1])
}

// checkRights returns ErrRights if a role of the worker's connections cannot run what every worker runs. It asks at the
// start: a right that is taken away later may be given again, so that is tried again like other trouble. With Direct
// there are two logins. That of the pool is not asked if all its connections are in use: they may be until the worker
// works.
func checkRights(ctx context.Context, w *Worker, on pgxQuerier) error {
	if err := hasRights(ctx, w.Client, on); err != nil || w.Direct == nil {
		return err
	}
	brief, cancel := context.WithTimeout(ctx, tuning.Wait)
	defer cancel()
	conn, err := w.Client.connect(brief)
	if err != nil && brief.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return denied(err)
	}
	defer conn.Release()
	return hasRights(ctx, w.Client, conn)
}

func hasRights(ctx context.Context, c *Client, on pgxQuerier) error {
	var role string
	var lacks []string
	err := each(ctx, pgxSession{on}, c.schema.Qualify(statement("rights")), func(r row) error {
		var one string
		err := r.Scan(&role, &one)
		lacks = append(lacks, one)
		return err
	})
	switch {
	case err != nil:
		return denied(fmt.Errorf("fifo: look what the worker's role may do: %w", err))
	case len(lacks) > 0:
		return fmt.Errorf("%w: role %q has no %s; migrations.Grant gives them to the members of a worker's role",
			ErrRights, role, strings.Join(lacks, ", no "))
	}
	return nil
}

// denied makes an ErrRights of a refusal. A role that may not use the schema cannot be told what else it lacks.
func denied(err error) error {
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "42501" {
		return fmt.Errorf("%w: %w; migrations.Grant gives them to the members of a worker's role", ErrRights, err)
	}
	return err
}
