package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"
)

// The ceiling is the least that a durable job can cost: a transaction that changes one row, in one round trip.

const ceilingRows = 1000

func prepareCeiling(ctx context.Context, db *database) error {
	return db.exec(ctx,
		"CREATE TABLE ceiling (id integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0)",
		fmt.Sprintf("INSERT INTO ceiling (id) SELECT generate_series(1, %d)", ceilingRows),
		"VACUUM ANALYZE ceiling")
}

const ceilingSQL = "UPDATE ceiling SET n = n + 1 WHERE id = $1"

// goCeiling is the ceiling with pgx, a connection for each lane, at the level that the library's lanes work on.
type goCeiling struct {
	db     *database
	lanes  int
	before func(context.Context) error // each update; may be nil
}

func (g *goCeiling) work(ctx context.Context, n int) (took time.Duration, err error) {
	conns, stmts, done, err := prepareConns(ctx, g.db, g.lanes, ceilingSQL)
	defer done()
	if err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	eg, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for i, conn := range conns {
		eg.Go(func() error {
			for left.Add(-1) >= 0 {
				if g.before != nil {
					if err := g.before(ctx); err != nil {
						return err
					}
				}
				id := strconv.AppendInt(nil, rand.Int64N(ceilingRows)+1, 10)
				if _, err := conn.PgConn().ExecStatement(ctx, stmts[i], [][]byte{id}, nil, nil).Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = eg.Wait()
	return time.Since(begin), err
}

// prepareConns opens connections with a prepared statement each. done, which is never nil, closes them.
func prepareConns(ctx context.Context, db *database, n int, sql string) (
	conns []*pgx.Conn, stmts []*pgconn.StatementDescription, done func(), err error,
) {
	done = func() {
		for _, c := range conns {
			_ = c.Close(context.WithoutCancel(ctx))
		}
	}
	for range n {
		conn, err := pgx.Connect(ctx, db.url)
		if err != nil {
			return conns, nil, done, err
		}
		conns = append(conns, conn)
		stmt, err := conn.Prepare(ctx, "ceiling", sql)
		if err != nil {
			return conns, nil, done, err
		}
		stmts = append(stmts, stmt)
	}
	return conns, stmts, done, nil
}

// The ceiling of an enqueue is a plain INSERT of as much: one row and one commit, in one round trip.

func preparePlain(ctx context.Context, db *database) error {
	return db.exec(ctx, `CREATE TABLE plain (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, group_id text NOT NULL,
		payload bytea NOT NULL, enqueued_at timestamptz NOT NULL DEFAULT statement_timestamp()
	)`)
}

const plainSQL = "INSERT INTO plain (queue, group_id, payload) VALUES ($1, $2, int8send($3)) RETURNING id"

// plain is the ceiling as a system, a connection for each producer.
func (s *enqueue) plain(b *bench, l load) *system {
	return &system{
		name: "plain INSERT", params: l.params(),
		work: func(ctx context.Context, _ int) (time.Duration, error) {
			if err := b.exec(ctx, "TRUNCATE plain"); err != nil {
				return 0, err
			}
			conns, stmts, done, err := prepareConns(ctx, b.database, l.producers, plainSQL)
			defer done()
			if err != nil {
				return 0, err
			}
			sent := make([]int64, l.producers)
			each, _, err := l.burst(ctx, s.window, func(ctx context.Context, p int) error {
				number := strconv.AppendInt(nil, sent[p], 10)
				args := [][]byte{[]byte(queue), []byte(groupID(int(sent[p]) % s.groups)), number}
				sent[p]++
				return conns[p].PgConn().ExecStatement(ctx, stmts[p], args, nil, nil).Read().Err
			})
			return each, err
		},
	}
}
