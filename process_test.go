package pgfifo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/killbench"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

const (
	assignmentEnv = "PGFIFO_TEST_WORKER"
	queue         = "q"
)

// An assignment makes this test binary a worker process.
type assignment struct {
	Name     string
	URL      string
	Journal  string
	Lanes    int
	PollOnly bool

	Heartbeat, Silence, ServerSilence time.Duration

	MaxAttempts int
	Relaxed     bool

	Program string `json:"-"` // of another release; "": this test binary
	Role    string // "": a worker, or one of roles
}

// roles are what a process of a release may be instead of a worker.
var roles = map[string]func(context.Context, *pgxpool.Pool, *journal) error{"producer": produce, "up": up}

// A task is the payload of a job: what its handler does after it has written the job's effect.
type task struct {
	Do    string `json:",omitempty"` // nothing more, or one of actions
	Until int    `json:",omitempty"` // the last attempt that does it; 0: all do
}

func TestMain(m *testing.M) {
	killbench.Main()
	text, ok := os.LookupEnv(assignmentEnv)
	if !ok {
		pgtest.Main(m)
	}
	if err := work(text); err != nil {
		fmt.Fprintln(os.Stderr, "worker process:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work is the life of a worker process: until SIGTERM, or the death of its parent.
func work(text string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	book, err := openJournal(a.Journal, a.Name)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready")
	context.AfterFunc(ctx, func() { book.write("term", &fifo.Job{}) })

	cfg, err := pgxpool.ParseConfig(a.URL)
	if err != nil {
		return err
	}
	cfg.MaxConns = int32(a.Lanes + 2) // every handler may wait at the gate
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	if a.Role != "" {
		return roles[a.Role](ctx, pool, book)
	}
	client := fifo.Open(pool, &fifo.Config{
		PollOnly: a.PollOnly,
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer func() { _ = client.Close() }()
	h := &taskHandler{pool: pool, client: client, book: book}
	worker := &fifo.Worker{
		Client: client, Name: a.Name, Concurrency: a.Lanes, MaxAttempts: a.MaxAttempts,
		Heartbeat: a.Heartbeat, Silence: a.Silence, ServerSilence: a.ServerSilence,
		Retry: fifo.Backoff(time.Millisecond, time.Millisecond),
	}
	worker.HandleQueue(queue, fifo.Queue{Handler: fifo.JSON(h.handle), Relaxed: a.Relaxed})
	return worker.Run(ctx)
}

// A taskHandler is the handler of a worker process.
type taskHandler struct {
	pool   *pgxpool.Pool
	client *fifo.Client
	book   *journal
}

func (h *taskHandler) handle(ctx context.Context, job *fifo.Job, t task) error {
	h.book.write("start", job)
	defer h.book.write("end", job)
	tx, err := job.Tx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects (group_id, job_id, attempt) VALUES (?, ?, ?)",
		job.GroupID, job.ID, job.Attempt())
	if err != nil {
		return err
	}
	if t.Until == 0 || job.Attempt() <= t.Until {
		return h.act(ctx, job, t.Do)
	}
	return nil
}

func (h *taskHandler) act(ctx context.Context, job *fifo.Job, what string) error {
	switch what {
	case "":
		return nil
	case "error":
		return errors.New("as told")
	case "nap":
		_, err := h.pool.Exec(ctx, "SELECT pg_sleep(0.005)")
		return err
	case "dwell":
		return pause.For(ctx, 4*time.Millisecond)
	case "census":
		return h.census(ctx, job, "nap")
	case "last":
		return h.census(ctx, job, "gate")
	case "panic":
		panic("as told")
	case "postpone":
		return fifo.RetryAfter(time.Hour, nil)
	case "exit":
		os.Exit(9)
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		_ = self.Kill()
		select {} // the signal is on its way
	case "query":
		return execute(ctx, job, "SELECT pg_sleep(3600)")
	case "stream": // there is always some of the answer on its way
		return execute(ctx, job, "SELECT repeat('x', 100000), pg_sleep(0.002) FROM generate_series(1, 1000000)")
	case "spawn": // the first job of a group, in the handler's own transaction
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := h.client.EnqueueTx(ctx, tx, fifo.Message{
			Queue: queue, GroupID: "spawned", Payload: task{},
		}); err != nil {
			return err
		}
		return h.wait(ctx, job)
	case "gate":
		return h.wait(ctx, job)
	case "hold":
		h.book.write("wait", job)
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), fifo.ErrLost) {
			h.book.write("lost", job)
		}
		return context.Cause(ctx)
	}
	return fmt.Errorf("unknown action %q", what)
}

// census counts the jobs that run, its own included, as the server has it: whose transactions are in progress. Then it
// does something more.
func (h *taskHandler) census(ctx context.Context, job *fifo.Job, then string) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	var xid string
	if err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&xid); err != nil {
		return err
	}
	// It is there before it counts: the last of those that run at once sees all of them.
	if _, err := h.pool.Exec(ctx, "INSERT INTO census (xid) VALUES ($1::text::xid8)", xid); err != nil {
		return err
	}
	if _, err := h.pool.Exec(ctx, `UPDATE census
		SET running = (SELECT count(*) FROM census c WHERE pg_xact_status(c.xid) = 'in progress')
		WHERE xid = $1::text::xid8`, xid); err != nil {
		return err
	}
	return h.act(ctx, job, then)
}

func execute(ctx context.Context, job *fifo.Job, sql string, args ...any) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sql, args...)
	return err
}

// wait leaves the job's transaction idle until the test opens the gate.
func (h *taskHandler) wait(ctx context.Context, job *fifo.Job) error {
	h.book.write("wait", job)
	_, err := h.pool.Exec(ctx, "SELECT pg_advisory_xact_lock_shared($1)", gateKey)
	return err
}

const gateKey = 1

// A process is a worker process, seen from the test.
type process struct {
	name   string
	cmd    *exec.Cmd
	ready  chan struct{} // closed when it heeds signals, or ended
	exited chan struct{}
	err    error // how it ended, once exited is closed
}

// start starts a worker process with so many lanes. It does not outlive the test.
func (s *site) start(lanes int) *process {
	s.Helper()
	return s.launch(assignment{Lanes: lanes}, (*exec.Cmd).Start)
}

// crew starts so many worker processes.
func (s *site) crew(n, lanes int) (procs []*process) {
	s.Helper()
	for range n {
		procs = append(procs, s.start(lanes))
	}
	return procs
}

// launch starts a worker process in its own way. What the assignment leaves out is the site's.
func (s *site) launch(a assignment, run func(*exec.Cmd) error) *process {
	s.Helper()
	exe, err := os.Executable()
	require.NoError(s, err)
	if a.Program != "" {
		exe = a.Program
	}
	s.count++
	p := &process{name: fmt.Sprintf("worker-%d", s.count), cmd: exec.Command(exe)}
	p.ready, p.exited = make(chan struct{}), make(chan struct{})
	a.Name, a.Journal, a.PollOnly = p.name, s.journal, a.PollOnly || s.pollOnly
	if a.URL == "" {
		a.URL = s.URL
	}
	text, err := json.Marshal(a)
	require.NoError(s, err)
	p.cmd.Env = append(os.Environ(), assignmentEnv+"="+string(text))
	p.cmd.Stderr = s.Output()
	stdin, err := p.cmd.StdinPipe() // its end is the end of the process
	require.NoError(s, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, run(p.cmd))
	go func() {
		_, _ = stdout.Read(make([]byte, 1))
		close(p.ready)
		_, _ = io.Copy(io.Discard, stdout)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	s.Cleanup(func() {
		_ = stdin.Close()
		<-p.exited
	})
	return p
}

// kill ends a worker process with SIGKILL, and takes down that it was killed.
func (s *site) kill(p *process) {
	s.Helper()
	s.killed[p.name] = true
	require.NoError(s, p.cmd.Process.Kill())
	<-p.exited
}

// terminate sends SIGTERM to a worker process, once that heeds it.
func (s *site) terminate(p *process) {
	s.Helper()
	<-p.ready
	require.NoError(s, p.cmd.Process.Signal(syscall.SIGTERM))
}

// await waits for a worker process to end in peace.
func (s *site) await(p *process) {
	s.Helper()
	receive(s.T, patience, p.exited, "the end of "+p.name)
	require.NoError(s, p.err, p.name)
}

// stop tells worker processes to end, and waits until they have.
func (s *site) stop(procs ...*process) {
	s.Helper()
	for _, p := range procs {
		s.terminate(p)
	}
	for _, p := range procs {
		s.await(p)
	}
}
