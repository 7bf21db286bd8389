package killbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

const assignmentEnv = "PGFIFO_KILLBENCH_WORKER"

// An assignment is what a worker process is told, in an environment variable: the URL may hold a password.
type assignment struct {
	Config // Jobs is how many it has room for
	Name   string
}

// Main makes the process a worker of Run, if that is what it was started for, and does not return then.
func Main() {
	text, ok := os.LookupEnv(assignmentEnv)
	if !ok {
		return
	}
	if err := work(text); err != nil {
		fmt.Fprintln(os.Stderr, "killbench: worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work is the life of a worker process, until it is killed or its standard input ends with its parent.
func work(text string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	slog.SetLogLoggerLevel(slog.LevelError) // each lost attempt is a warning
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, a.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()
	worker := &fifo.Worker{Client: client, Name: a.Name, Concurrency: a.Jobs, SessionConcurrency: a.Jobs}
	if a.Session {
		worker.Concurrency = sessionLanes
	}
	worker.Handle(a.Queue, a.hold)
	return worker.Run(ctx)
}

// hold tells the parent that a job has started. The first attempt goes on until its worker is killed.
func (a assignment) hold(ctx context.Context, job *fifo.Job) error {
	if _, err := fmt.Fprintln(os.Stdout, job.ID, time.Now().UnixNano()); err != nil {
		return err
	}
	if job.Attempt() > 1 && !a.GoOn {
		return nil
	}
	if !a.Session && !a.GoOn {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A start is the start of an attempt, as a worker process told it.
type start struct {
	proc *process
	job  int64
	at   time.Time
}

// A process is a worker process, seen from the parent.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer     // its end is the end of the process
	ended chan struct{} // closed when all that it told was passed on
}

// sessionLanes is the Concurrency of a process whose queue has the lease of a session.
const sessionLanes = 4

// employ starts a worker process with room for so many jobs, and waits until it has its connections.
func (b *bench) employ(ctx context.Context, jobs int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("a worker process does not start"))
	defer cancel()
	b.count++
	a := assignment{b.Config, fmt.Sprintf("killbench-%d", b.count)}
	a.Jobs = jobs
	connections := jobs + 2 // one looks for work, and one listens
	if b.Session {          // and one holds the groups, and two settle jobs
		connections = sessionLanes + 5
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	p := &process{name: a.Name, cmd: exec.Command(exe), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), assignmentEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	b.procs = append(b.procs, p)
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var job, at int64
			if _, err := fmt.Sscan(lines.Text(), &job, &at); err == nil {
				b.starts <- start{p, job, time.Unix(0, at)}
			}
		}
	}()
	for {
		var conns int
		err := b.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`, a.Name).Scan(&conns)
		if err != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		if conns == connections {
			return nil
		}
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// kill ends a process with SIGKILL.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.ended
	_ = p.cmd.Wait() // it says that the process was killed
	return err
}

// stop ends the processes that are left.
func (b *bench) stop() {
	for _, p := range b.procs {
		_ = p.stdin.Close()
		_ = p.kill()
	}
}
