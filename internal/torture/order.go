package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/rpc"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const orderEnv = "PGFIFO_TORTURE_ORDER"

// An order is what a process is told, in an environment variable: the URL may hold a password.
type order struct {
	Config         // of the run; Dir is that of its logs
	Role    string // "worker" or "producer"
	Name    string
	URL     string
	Hub     string // the socket of the harness
	Keeps   bool   // whether a worker works the queues with Settings.SessionLease
	Prepare bool   // whether transactions can be prepared
	Tenant  string // a role without any right to the queue's tables; "": there is none
	Super   bool   // whether the login may set session_replication_role
}

func (o order) journal() string { return filepath.Join(o.Dir, o.Name+".log") }

// obey is the life of a worker or producer process.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	_ = os.Unsetenv(orderEnv)
	book, err := openJournal(o.journal())
	if err != nil {
		return err
	}
	hub, err := rpc.Dial("unix", o.Hub)
	if err != nil {
		return err
	}
	switch o.Role {
	case "worker":
		return work(o, book, hub)
	case "producer":
		return produce(o, book, hub)
	}
	return fmt.Errorf("no role %q", o.Role)
}

// connect returns a pool. A producer's sessions bear its name. Of a worker's, those of the library's own bear it, whose
// timeouts are the library's business; those of the pool, which have none, are told from them.
func (o order) connect(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(conns)
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		switch {
		case o.Role == "producer":
			c.RuntimeParams["application_name"] = o.Name
		case c.RuntimeParams["application_name"] == "":
			c.RuntimeParams["application_name"] = poolPrefix + o.Name
		}
		return nil
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// poolPrefix begins the application_name of a session of a worker's pool.
const poolPrefix = "pool-"

// untilOrphaned reads what the harness says, a word a line, and ends the process when the harness has ended.
func untilOrphaned(heard func(word string)) {
	for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
		heard(scan.Text())
	}
	os.Exit(2)
}

// logger passes the library's warnings on.
func logger(to logLines) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// logLines is told of each line.
type logLines func(line string)

func (f logLines) Write(p []byte) (int, error) {
	f(strings.TrimSpace(string(p)))
	return len(p), nil
}

// attemptLines are those of attempts, which hooks tell a worker's journal of, of leases, which the harness changes, and
// of queues, which are shared out among the workers of a process.
var attemptLines = regexp.MustCompile(
	`msg="pgfifo: (attempt failed|attempt lost|dead letter|queue is unavailable|the queue's SessionLease was changed|` +
		`a job waits in a queue that this worker does not handle)`)
