package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"
)

// A watermillQueue is Watermill on PostgreSQL, which holds a transaction for each message that it hands out, if it is
// told to fetch no more than one, and keeps the order of a topic. It has no groups: each lane has a topic of its own,
// and a job of number n is in topic n modulo the number of lanes. What is done stays in the table, until the next fill.
type watermillQueue struct {
	db     *database
	topics int
	filled int64
}

func newWatermill(db *database, lanes int) *watermillQueue {
	return &watermillQueue{db: db, topics: lanes}
}

func (*watermillQueue) name() string { return "Watermill" }

func watermillTopic(n int) string { return fmt.Sprintf("lane_%d", n) }

var watermillSchema = watermillsql.DefaultPostgreSQLSchema{
	SubscribeBatchSize:  1,
	GeneratePayloadType: func(string) string { return "BYTEA" },
}

var watermillOffsets watermillsql.DefaultPostgreSQLOffsetsAdapter

// prepare makes its tables.
func (q *watermillQueue) prepare(context.Context) error {
	subscriber, db, err := q.subscriber()
	if err != nil {
		return err
	}
	for topic := range q.topics {
		if err = subscriber.SubscribeInitialize(watermillTopic(topic)); err != nil {
			break
		}
	}
	return errors.Join(err, db.Close())
}

// subscriber returns one with connections of its own.
func (q *watermillQueue) subscriber() (*watermillsql.Subscriber, *sql.DB, error) {
	cfg, err := pgx.ParseConfig(q.db.url)
	if err != nil {
		return nil, nil, err
	}
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(q.topics)
	db.SetMaxIdleConns(q.topics)
	s, err := watermillsql.NewSubscriber(db, watermillsql.SubscriberConfig{
		SchemaAdapter: watermillSchema, OffsetsAdapter: watermillOffsets,
		BackoffManager: watermillsql.NewDefaultBackoffManager(2*time.Millisecond, 10*time.Millisecond),
	}, watermill.NopLogger{})
	return s, db, err
}

// watermillFill adds the numbers from $2, $1 rows apart, up to $3, as one transaction of a producer.
const watermillFill = `INSERT INTO %s (uuid, payload, metadata, transaction_id)
	SELECT gen_random_uuid()::text, int8send(n), '{}', pg_current_xact_id()
	FROM generate_series($2::bigint, $3::bigint, $1::bigint) AS n`

func (q *watermillQueue) fill(ctx context.Context, n int) error {
	const each = 100 // its query slows down with what one transaction has added
	topics, end := int64(q.topics), q.filled+int64(n)
	for topic := range topics {
		name := watermillTopic(int(topic))
		table, offsets := watermillSchema.MessagesTable(name), watermillOffsets.MessagesOffsetsTable(name)
		if err := q.db.exec(ctx, "DELETE FROM "+table+` WHERE (transaction_id, "offset") <=
			(SELECT last_processed_transaction_id, offset_acked FROM `+offsets+")"); err != nil {
			return err
		}
		first := q.filled + ((topic-q.filled)%topics+topics)%topics
		for ; first < end; first += each * topics {
			last := min(first+(each-1)*topics, end-1)
			if _, err := q.db.pool.Exec(ctx, fmt.Sprintf(watermillFill, table), topics, first, last); err != nil {
				return err
			}
		}
		if err := q.db.exec(ctx, "VACUUM ANALYZE "+table); err != nil {
			return err
		}
	}
	q.filled = end
	return nil
}

func (q *watermillQueue) run(
	ctx context.Context, handle func(int64), meanwhile func(context.Context) error,
) (err error) {
	subscriber, db, err := q.subscriber()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var lanes errgroup.Group
	for topic := range q.topics {
		// It is to be closed, and not cut off.
		messages, err := subscriber.Subscribe(context.WithoutCancel(ctx), watermillTopic(topic))
		if err != nil {
			return errors.Join(err, subscriber.Close(), lanes.Wait())
		}
		lanes.Go(func() error {
			for m := range messages {
				handle(int64(binary.BigEndian.Uint64(m.Payload)))
				m.Ack()
			}
			return nil
		})
	}
	err = meanwhile(ctx)
	return errors.Join(err, subscriber.Close(), lanes.Wait())
}
