package pgtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// A lent database is one test's at a time, with a pool on it. A connection costs as much as several databases, and a
// pool has two or three of them, so the next test gets both.
type lent struct {
	name, url string
	pool      *pgxpool.Pool
	shape     string // of the catalogs, when it was new
}

// shelf has the databases that are as good as new.
var shelf struct {
	sync.Mutex
	all []*lent
}

// Lend returns the URL of a migrated database and a pool on it. There are no rows, no ids were drawn, and nobody else
// is connected. The pool may have idle connections. When the test ends and has passed, another one may get both, unless
// the test has changed more than rows, and tables and functions of its own. Tests that look at what the server counts
// take a new database: URL.
func Lend(tb testing.TB) (string, *pgxpool.Pool) {
	tb.Helper()
	l := fromShelf()
	if l == nil {
		var err error
		l, err = newLent(tb.Context())
		require.NoError(tb, err)
	}
	tb.Cleanup(func() {
		if !tb.Failed() && !tb.Skipped() && l.renew() {
			shelf.Lock()
			defer shelf.Unlock()
			shelf.all = append(shelf.all, l)
			return
		}
		if err := l.drop(); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return l.url, l.pool
}

func fromShelf() *lent {
	shelf.Lock()
	defer shelf.Unlock()
	last := len(shelf.all) - 1
	if last < 0 {
		return nil
	}
	l := shelf.all[last]
	shelf.all = shelf.all[:last]
	return l
}

func newLent(ctx context.Context) (*lent, error) {
	name, err := createDatabase("")
	if err != nil {
		return nil, err
	}
	l := &lent{name: name, url: at(name)}
	if l.pool, err = pgxpool.New(context.WithoutCancel(ctx), l.url); err == nil {
		err = l.pool.QueryRow(ctx, shapeSQL).Scan(&l.shape)
	}
	if err != nil {
		return nil, errors.Join(err, l.drop())
	}
	return l, nil
}

func (l *lent) drop() error {
	if l.pool != nil {
		l.pool.Close()
	}
	return admin("DROP DATABASE " + l.name + " WITH (FORCE)")
}

// leaving is how long what a test has stopped may take to end its sessions.
const leaving = 2 * time.Second

// shapeSQL tells whether anything but rows was changed, and tables that were dropped.
//
//go:embed shape.sql
var shapeSQL string

const (
	// strangersSQL tells who is connected beside these sessions.
	strangersSQL = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> ALL ($1::integer[])`
	// dropSQL drops the tables and functions that the test has made, with the triggers: a new database costs much more.
	dropSQL = `DO $$
		DECLARE made text;
		BEGIN
			SELECT string_agg(oid::regclass::text, ', ') INTO made FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind = 'r';
			IF made IS NOT NULL THEN
				EXECUTE 'DROP TABLE ' || made;
			END IF;
			SELECT string_agg(oid::regprocedure::text, ', ') INTO made FROM pg_proc
			WHERE pronamespace = 'public'::regnamespace AND prokind IN ('f', 'p');
			IF made IS NOT NULL THEN
				EXECUTE 'DROP ROUTINE ' || made || ' CASCADE';
			END IF;
		END $$`
	emptySQL = `DO $$
		DECLARE used text;
		BEGIN
			SELECT string_agg(oid::regclass::text, ', ') INTO used FROM pg_class
			WHERE relnamespace = 'pgfifo'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0;
			IF used IS NOT NULL THEN
				EXECUTE 'TRUNCATE ' || used;
			END IF;
			PERFORM setval(oid, 1, false) FROM pg_class WHERE relnamespace = 'pgfifo'::regnamespace AND relkind = 'S';
		END $$`
)

// renew makes the database as good as new, and reports whether it is.
func (l *lent) renew() bool {
	ctx, cancel := context.WithTimeout(context.Background(), Patient)
	defer cancel()
	if !Wait(leaving, func() bool { return l.pool.Stat().AcquiredConns()+l.pool.Stat().ConstructingConns() == 0 }) {
		return false
	}
	conns := l.pool.AcquireAllIdle(ctx)
	defer func() {
		for _, c := range conns {
			c.Release()
		}
	}()
	var pids []uint32
	for _, c := range conns {
		if err := forget(ctx, c.Conn()); err != nil {
			return false
		}
		pids = append(pids, c.Conn().PgConn().PID())
	}
	return len(conns) > 0 && l.empty(ctx, conns[0].Conn(), pids) == nil
}

// forget makes a session as it was at its start.
func forget(ctx context.Context, c *pgx.Conn) error {
	if c.PgConn().TxStatus() != 'I' {
		return errors.New("a transaction is open")
	}
	if err := c.DeallocateAll(ctx); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "DISCARD ALL")
	return err
}

func (l *lent) empty(ctx context.Context, c *pgx.Conn, pids []uint32) error {
	if !Wait(leaving, func() bool {
		var strangers int
		err := c.QueryRow(ctx, strangersSQL, pgx.QueryExecModeExec, pids).Scan(&strangers)
		return err == nil && strangers == 0
	}) {
		return errors.New("somebody is still connected")
	}
	if _, err := c.Exec(ctx, dropSQL); err != nil {
		return err
	}
	var left string
	if err := c.QueryRow(ctx, shapeSQL, pgx.QueryExecModeSimpleProtocol).Scan(&left); err != nil {
		return err
	}
	if left != l.shape {
		return fmt.Errorf("it was %s and is %s", l.shape, left)
	}
	_, err := c.Exec(ctx, emptySQL)
	return err
}
