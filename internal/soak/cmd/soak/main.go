// Soak runs jobs and faults in one process and tells what is left of them:
//
//	go run ./internal/soak/cmd/soak                  100,000 jobs, 1,000 faults
//	go run ./internal/soak/cmd/soak -for 15m         as many as there come, and whether memory grows
//
// It takes its server as the tests do (DATABASE_URL, PGFIFO_POSTGRES), makes a database of its own there, and drops it.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/soak"
	"github.com/pgfifo/pgfifo/migrations"
)

func main() {
	cfg := soak.Config{Log: os.Stderr}
	flag.IntVar(&cfg.Jobs, "jobs", 100_000, "how many jobs")
	flag.DurationVar(&cfg.For, "for", 0, "for how long, instead of -jobs")
	flag.IntVar(&cfg.Faults, "faults", 1000, "how many faults meanwhile")
	flag.IntVar(&cfg.Lanes, "lanes", 8, "lanes of each of the two workers")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ok, err := run(ctx, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg soak.Config) (bool, error) {
	server, err := pgserver.Start(ctx, &pgserver.Options{
		Settings: map[string]string{"shared_buffers": "256MB"},
		Logf:     func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return false, err
	}
	defer func() { _ = server.Close() }()
	name := fmt.Sprintf("pgfifo_soak_%d", os.Getpid())
	if err := admin(ctx, server.URL, "CREATE DATABASE "+name); err != nil {
		return false, err
	}
	defer func() { _ = admin(context.WithoutCancel(ctx), server.URL, "DROP DATABASE "+name+" WITH (FORCE)") }()
	at, err := url.Parse(server.URL)
	if err != nil {
		return false, err
	}
	at.Path = "/" + name
	if err := migrate(ctx, at.String()); err != nil {
		return false, err
	}
	report, err := soak.Run(ctx, at.String(), cfg)
	if err != nil {
		return false, err
	}
	return len(report.Problems) == 0, report.Print(os.Stdout)
}

func migrate(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrations.Up(ctx, pool, nil)
}

func admin(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
