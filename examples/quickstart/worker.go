package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/pgfifo/pgfifo/fifo"
)

// An assignment is what the parent tells a worker process, in an environment variable: the URL may hold a password.
type assignment struct {
	Name     string
	URL      string
	Database string
}

const assignmentEnv = "PGFIFO_QUICKSTART_WORKER"

// An entry is the payload of a job. The account is the job's group.
type entry struct {
	Transfer int64 `json:"transfer"`
	Amount   int64 `json:"amount"`
}

// work is what a worker process does until its standard input ends: when the parent closes it, or dies.
func work(text string) error {
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // Ctrl-C reaches every process of the terminal; the parent decides
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	pool, err := connect(ctx, a.URL, a.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := fifo.Open(pool, &fifo.Config{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer func() { _ = client.Close() }()

	worker := &fifo.Worker{Client: client, Name: a.Name, Concurrency: lanes}
	worker.Handle(queue, fifo.JSON(apply))
	if err := worker.Run(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(worker.Stats())
}

// The balance builds on the account's last entry, whatever that is: an entry written twice, too early or too late
// leaves a wrong balance behind.
const applySQL = `
	INSERT INTO ledger (account, seq, transfer_id, amount, balance, attempt)
	SELECT $1, coalesce(last.seq, 0) + 1, $2, $3, coalesce(last.balance, 0) + $3, $4
	FROM (VALUES (1)) one
	LEFT JOIN (SELECT seq, balance FROM ledger WHERE account = $1 ORDER BY seq DESC LIMIT 1) last ON true`

// apply is the handler. It writes through the job's own transaction, so the entry and the end of the job are committed
// together, or neither is.
func apply(ctx context.Context, job *fifo.Job, e entry) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, applySQL, job.GroupID, e.Transfer, e.Amount, job.Attempt())
	return err
}
