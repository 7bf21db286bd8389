package main

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
		work: func(ctx context.Context, _ int) (_ time.Duration, err error) {
			if err := b.exec(ctx, "TRUNCATE plain"); err != nil {
				return 0, err
			}
			conns := make([]*pgx.Conn, l.producers)
			stmts := make([]*pgconn.StatementDescription, l.producers)
			defer func() {
				for _, c := range conns {
					if c != nil {
						_ = c.Close(context.WithoutCancel(ctx))
					}
				}
			}()
			for i := range conns {
				if conns[i], err = pgx.Connect(ctx, b.url); err != nil {
					return 0, err
				}
				if stmts[i], err = conns[i].Prepare(ctx, "plain", plainSQL); err != nil {
					return 0, err
				}
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
