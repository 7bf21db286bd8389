package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// countStatements are the settings of a server that counts statements.
var countStatements = map[string]string{
	"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_utility": "on",
}

// A statement is what PostgreSQL counted of one text.
type statement struct {
	Query string
	Calls int64
	Total float64 // of the executions, in milliseconds
}

// label is what a statement is for: the first line of the comment on top of it, or the beginning of its text.
func (s statement) label() string {
	first, rest, _ := strings.Cut(strings.TrimSpace(s.Query), "\n")
	if text, ok := strings.CutPrefix(first, "--"); ok {
		return strings.TrimSpace(text)
	}
	text := []rune(strings.Join(strings.Fields(first+" "+rest), " "))
	return string(text[:min(len(text), 70)])
}

// discovery are the labels of the statements that look for work, those of internal/schedule/sql.
var discovery = []string{
	"Lists the heads of", "Looks at the heads of named groups", "Tells which of the transactions",
	"Makes the rows of groups",
}

func (s statement) discovers() bool {
	for _, d := range discovery {
		if strings.HasPrefix(s.label(), d) {
			return true
		}
	}
	return false
}

// openStatements makes the view readable. It fails if the server was not started with the extension's library.
func (d *database) openStatements(ctx context.Context) error {
	err := d.exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements", "SELECT FROM pg_stat_statements LIMIT 1")
	if err != nil {
		return fmt.Errorf("the server does not count statements; set shared_preload_libraries = "+
			"'pg_stat_statements': %w", err)
	}
	d.counting = true
	return nil
}

// tryStatements is for those that go on without: nothing is counted then.
func (b *bench) tryStatements(ctx context.Context) {
	if err := b.openStatements(ctx); err != nil {
		b.notef("without the server's own figures: %v", err)
	}
}

// resetStatements begins to count anew, for this database alone.
func (d *database) resetStatements(ctx context.Context) error {
	if !d.counting {
		return nil
	}
	return d.exec(ctx,
		"SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()), 0)")
}

// statements returns what was counted in this database, the most expensive first.
func (d *database) statements(ctx context.Context) ([]statement, error) {
	if !d.counting {
		return nil, nil
	}
	rows, _ := d.pool.Query(ctx, `SELECT query, calls, total_exec_time FROM pg_stat_statements
		WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
		  AND query NOT LIKE '%pg_stat_statements%'
		ORDER BY total_exec_time DESC`)
	return pgx.CollectRows(rows, pgx.RowToStructByPos[statement])
}

// byTotal sorts statements, the most expensive first.
func byTotal(m map[string]*statement) []*statement {
	return slices.SortedFunc(maps.Values(m), func(a, b *statement) int { return cmp.Compare(b.Total, a.Total) })
}

// commits returns how many transactions of this database were committed.
func (d *database) commits(ctx context.Context) (n int64, err error) {
	err = d.pool.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	return n, err
}
