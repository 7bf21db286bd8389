// Command withserver runs a command with a PostgreSQL server, whose URL the command finds in DATABASE_URL:
//
//	go run ./internal/pgserver/cmd/withserver go run ./examples/batches
//
// The server comes from where package pgserver finds one, and goes when the command has ended. Withserver exits with
// the command's status, or with 128 and the number of the signal that ended it, as shells do. It passes SIGTERM on.
// Ctrl-C reaches the command by itself, for the terminal sends it to both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/pgfifo/pgfifo/internal/pgserver"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withserver COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withserver:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// run starts a server, runs the command with it, and returns the command's status.
func run(command []string) (status int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := pgserver.Start(ctx, &pgserver.Options{
		Logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if ctx.Err() != nil {
		return 1, errors.New("told to stop before the command began")
	}

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM) // the context goes on catching Ctrl-C, so that the server is closed
	defer signal.Stop(signals)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), pgserver.EnvURL+"="+server.URL)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended just now
		case err := <-ended:
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
				return statusOf(failed.ProcessState), nil
			}
			return 0, err
		}
	}
}

func statusOf(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
