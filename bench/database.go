package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/migrations"
)

// serveFunc gets a server. The second value ends it.
type serveFunc func(ctx context.Context, settings map[string]string) (*pgserver.Server, func() error, error)

// serveOwn starts a server, or takes that of DATABASE_URL. Commits are durable: all else would be another question.
func serveOwn(ctx context.Context, settings map[string]string) (*pgserver.Server, func() error, error) {
	all := map[string]string{"shared_buffers": "1GB", "max_wal_size": "4GB"}
	maps.Copy(all, settings)
	srv, err := pgserver.Start(ctx, &pgserver.Options{Durable: true, Settings: all})
	if err != nil {
		return nil, nil, err
	}
	return srv, srv.Close, nil
}

// A database is the one of a run, migrated; it is dropped at the end.
type database struct {
	url             string
	pool            *pgxpool.Pool // for preparing and looking, beside what is measured
	version, source string

	schemas  int             // made by newSchema
	dial     pgconn.DialFunc // of workers; nil: the default
	counting bool            // statements

	admin *pgx.Conn
	name  string
	stop  func() error
}

func openDatabase(ctx context.Context, serve serveFunc, settings map[string]string) (_ *database, err error) {
	srv, stop, err := serve(ctx, settings)
	if err != nil {
		return nil, err
	}
	d := &database{version: srv.Version, source: srv.Source, stop: stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.admin, err = pgx.Connect(ctx, srv.URL); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("pgfifo_bench_%d_%d", os.Getpid(), time.Now().UnixNano())
	if _, err = d.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	d.name = name
	u, err := url.Parse(srv.URL)
	if err != nil {
		return nil, errors.New("the server's URL is none") // err would print it, password and all
	}
	u.Path = "/" + name
	d.url = u.String()
	if d.pool, err = pgxpool.New(ctx, d.url); err != nil {
		return nil, err
	}
	return d, migrations.Up(ctx, d.pool, nil)
}

// close drops the database, also after a run was interrupted.
func (d *database) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if d.pool != nil {
		d.pool.Close()
	}
	var err error
	if d.name != "" {
		_, err = d.admin.Exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)")
	}
	if d.admin != nil {
		err = errors.Join(err, d.admin.Close(ctx))
	}
	return errors.Join(err, d.stop())
}

// flush has the server write out what preparing left behind, or that would be done while somebody is measured. A role
// that may not say so goes without.
func (d *database) flush(ctx context.Context) error {
	_, err := d.pool.Exec(ctx, "CHECKPOINT")
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "42501" {
		return nil
	}
	return err
}

// exec runs statements that prepare a run.
func (d *database) exec(ctx context.Context, sqls ...string) error {
	for _, sql := range sqls {
		if _, err := d.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%w in %s", err, sql)
		}
	}
	return nil
}

// makeGroups adds the rows of the first n groups: what making them costs is paid once.
func (d *database) makeGroups(ctx context.Context, schema string, n int) error {
	_, err := d.pool.Exec(ctx, "INSERT INTO "+schema+".queue_groups (queue, group_id) SELECT $1, "+
		fmt.Sprintf(groupSQL, "n")+" FROM generate_series(0, $2::bigint - 1) AS n ON CONFLICT DO NOTHING", queue, n)
	return err
}
