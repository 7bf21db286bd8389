package main

import (
	"context"
	"strconv"
	"time"
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
