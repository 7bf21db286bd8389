package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgbench is the ceiling with the program that comes with PostgreSQL, where there is one.
type pgbench struct {
	db      *database
	lanes   int
	program string
}

// findPgbench returns the program's path; or "", and notes that.
func (b *bench) findPgbench() string {
	program := pgbenchPath()
	if program == "" {
		b.notef("pgbench was not found: the client in Go takes its place")
	}
	return program
}

func pgbenchPath() string {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

const pgbenchScript = `\set id random(1, %d)
UPDATE ceiling SET n = n + 1 WHERE id = :id;
`

var pgbenchTPS = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

func (p *pgbench) work(ctx context.Context, n int) (time.Duration, error) {
	tps, err := runPgbench(ctx, p.db, p.program, fmt.Sprintf(pgbenchScript, ceilingRows), "-M", "prepared",
		"-c", strconv.Itoa(p.lanes), "-j", strconv.Itoa(min(p.lanes, 2)), "-t", strconv.Itoa(max(n/p.lanes, 1)))
	return time.Duration(float64(n) / tps * float64(time.Second)), err
}

// runPgbench has the program run a script, and returns how many transactions there were in a second.
func runPgbench(ctx context.Context, db *database, program, text string, args ...string) (float64, error) {
	env, err := clientEnv(db.url)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, program, append(args, "--no-vacuum", "-f", "-")...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	m := pgbenchTPS.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("pgbench: no rate in: %s", out)
	}
	tps, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || tps <= 0 {
		return 0, fmt.Errorf("pgbench: rate %q", m[1])
	}
	return tps, nil
}

// clientEnv is the environment in which PostgreSQL's programs find the database: a command line would show the
// password.
func clientEnv(url string) ([]string, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	mode := "disable"
	if cfg.TLSConfig != nil {
		mode = "require"
	}
	return append(os.Environ(), "PGHOST="+cfg.Host, "PGPORT="+strconv.Itoa(int(cfg.Port)), "PGUSER="+cfg.User,
		"PGPASSWORD="+cfg.Password, "PGDATABASE="+cfg.Database, "PGSSLMODE="+mode), nil
}
