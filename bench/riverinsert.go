package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// river is River's producers as a system: its ordinary insert for one job, its fastest for many, by COPY.
func (s *enqueue) river(b *bench, l load) *system {
	name := "River Insert"
	if l.messages > 1 {
		name = "River InsertManyFast"
	}
	return &system{name: name, params: l.params(), work: func(ctx context.Context, _ int) (time.Duration, error) {
		if err := b.exec(ctx, "TRUNCATE "+riverSchema+".river_job"); err != nil {
			return 0, err
		}
		pool, err := b.openWarmPool(ctx, l.producers)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet(), Schema: riverSchema})
		if err != nil {
			return 0, err
		}
		each, _, err := l.burst(ctx, s.window, func(ctx context.Context, _ int) error {
			return insertRiver(ctx, client, l.messages)
		})
		return each, err
	}}
}

func insertRiver(ctx context.Context, client *river.Client[pgx.Tx], n int) error {
	if n == 1 {
		_, err := client.Insert(ctx, riverJob{}, nil)
		return err
	}
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverJob{int64(i)}
	}
	_, err := client.InsertManyFast(ctx, jobs)
	return err
}
