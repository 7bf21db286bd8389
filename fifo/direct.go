package fifo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/lease"
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
