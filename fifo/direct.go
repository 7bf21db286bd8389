package fifo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/lease"
)

// databaseSQL tells a database from all others, of the same server and of any other.
const databaseSQL = `SELECT pg_catalog.current_database()::text,
	(SELECT system_identifier::text FROM pg_catalog.pg_control_system())`

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
	switch pgErr := new(pgconn.PgError); {
	case errors.As(err, &pgErr) && pgErr.Code == "42501": // the server does not say
		return nil
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
