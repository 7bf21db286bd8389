package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A bare is what the server does for the jobs of one group, without the library: the same tables, locks and statements,
// sent by one client that knows which job is next and checks nothing else.
type bare struct {
	db     *database
	schema string
	last   int64 // the highest id
}

// prepare makes the tables, and the group's row.
func (r *bare) prepare(ctx context.Context) (err error) {
	if r.schema, err = r.db.newSchema(ctx); err != nil {
		return err
	}
	return r.db.makeGroups(ctx, r.schema, 1)
}

func (r *bare) qualify(sql string) string { return strings.ReplaceAll(sql, "pgfifo.", r.schema+".") }

// fill adds n jobs and returns the highest id before them.
func (r *bare) fill(ctx context.Context, n int) (before int64, err error) {
	before = r.last
	r.last += int64(n)
	_, err = r.db.pool.Exec(ctx, r.qualify("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) "+
		"SELECT $1, $2, n, int8send(n) "+
		"FROM generate_series($3::bigint, $4::bigint) AS n"), queue, groupID(0), before+1, r.last)
	return before, errors.Join(err, r.db.flush(ctx))
}

// empty makes sure that all jobs are done.
func (r *bare) empty(ctx context.Context) error {
	var left int64
	err := r.db.pool.QueryRow(ctx, r.qualify("SELECT count(*) FROM pgfifo.jobs")).Scan(&left)
	if err == nil && left > 0 {
		err = fmt.Errorf("%s: %d jobs are left", r.schema, left)
	}
	return err
}

//go:embed bare_claim.sql
var bareClaim string

const bareSucceed = "DELETE FROM pgfifo.jobs WHERE ctid = $4 AND queue = $1 AND group_id = $2 AND id = $3"

// bareGo sends what a lane sends, as a lane does: the end of one job and the claim of the next in one pipeline.
type bareGo struct{ bare }

func (r *bareGo) work(ctx context.Context, n int) (time.Duration, error) {
	before, err := r.fill(ctx, n)
	if err != nil {
		return 0, err
	}
	conn, err := pgx.Connect(ctx, r.db.url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	l := bareLane{conn: conn.PgConn(), stmts: make(map[string]*pgconn.StatementDescription), id: before}
	for _, sql := range []string{bareClaim, bareSucceed, "BEGIN", "COMMIT AND CHAIN", "COMMIT"} {
		if l.stmts[sql], err = conn.Prepare(ctx, r.qualify(sql), r.qualify(sql)); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	if err := l.trip(ctx, "BEGIN", true); err != nil {
		return 0, err
	}
	for range n - 1 {
		if err := l.trip(ctx, "COMMIT AND CHAIN", true); err != nil {
			return 0, err
		}
	}
	if err := l.trip(ctx, "COMMIT", false); err != nil {
		return 0, err
	}
	return time.Since(begin), r.empty(ctx)
}

// A bareLane is a connection and the job that it holds.
type bareLane struct {
	conn  *pgconn.PgConn
	stmts map[string]*pgconn.StatementDescription
	id    int64
	place []byte // of the job's row; nil: it holds none
}

// trip is one round trip: the end of the job that is held, that of its transaction, and the claim of the next.
func (l *bareLane) trip(ctx context.Context, end string, next bool) error {
	pipeline := l.conn.StartPipeline(ctx)
	key := [][]byte{[]byte(queue), []byte(groupID(0)), strconv.AppendInt(nil, l.id, 10)}
	if l.place != nil {
		pipeline.SendQueryStatement(l.stmts[bareSucceed], append(slices.Clone(key), l.place), nil, nil)
	}
	pipeline.SendQueryStatement(l.stmts[end], nil, nil, nil)
	if next {
		pipeline.SendQueryStatement(l.stmts[bareClaim], key, nil, nil)
	}
	err := pipeline.Sync()
	for synced := false; err == nil && !synced; {
		var answer any
		switch answer, err = pipeline.GetResults(); answer := answer.(type) {
		case *pgconn.ResultReader:
			err = l.read(answer)
		case *pgconn.PipelineSync:
			synced = true
		}
	}
	return errors.Join(err, pipeline.Close())
}

func (l *bareLane) read(r *pgconn.ResultReader) error {
	for r.NextRow() {
		l.id++
		if id := string(r.Values()[0]); id != strconv.FormatInt(l.id, 10) {
			return fmt.Errorf("job %s instead of %d", id, l.id)
		}
		l.place = bytes.Clone(r.Values()[7])
	}
	_, err := r.Close()
	return err
}
