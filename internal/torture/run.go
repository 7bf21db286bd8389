package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/migrations"
)

// A run is a run under way.
type run struct {
	cfg   Config
	log   func(format string, args ...any)
	began time.Time
	dir   string
	hubs  string // folder of the hub's socket

	srv      *pgserver.Server
	address  *url.URL // of that
	database string   // that was created for the run
	pool     *pgxpool.Pool
	client   *fifo.Client // for probes
	proxy    *netfault.Proxy
	net      *netfault.Net // nil where there is none
	hub      *hub
	book     *journal // of the faults
	probes   *journal
	locks    bool   // pgrowlocks is there
	tenant   string // a role without rights, or ""
	super    bool   // the login is a superuser
	prepare  bool   // transactions can be prepared

	server sync.RWMutex // held for writing by what is exclusive
	down   atomic.Bool  // the server, or all workers, are down on purpose
	staff  sync.RWMutex // held for writing while no process is to follow one that has died
	clash  sync.Mutex   // while a dead letter is in the way
	outage sync.Mutex   // while handlers say that something is down

	mu       sync.Mutex // what is below
	slots    []*process
	spawned  int
	stopping bool
	marks    []mark
	leftOut  map[string]string // faults and checks: why
	cut      map[way]bool      // some partition has to do with it
	injected map[string]int
	samples  []lockSample
	end      endState
	drain    []breach // what the drain found
	failure  error    // of the harness
	endings  []func() // what is to be done when it is over

	granted atomic.Int64 // messages that producers were told to send
	backlog atomic.Int64 // jobs in the table, at the last look
	begun   atomic.Int64 // faults
	planned int64
	// Messages that may be sent before their time, because a fault needs something to be under way.
	extra    atomic.Int64
	finished atomic.Bool // no fault is left to inject
	enough   atomic.Bool // no more messages and faults: Config.For has passed
	probed   atomic.Int64
	spares   atomic.Int32
	children sync.WaitGroup // goroutines
}

// open makes what the run needs.
func (r *run) open(ctx context.Context) (err error) {
	if r.dir, err = r.folder(); err != nil {
		return err
	}
	// Not below r.dir: the path of a socket is short.
	if r.hubs, err = os.MkdirTemp("", "torture-"); err != nil {
		return err
	}
	r.later(func() { _ = os.RemoveAll(r.hubs) })
	for name, book := range map[string]**journal{"faults.log": &r.book, "probes.log": &r.probes} {
		if *book, err = openJournal(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	if r.hub, err = newHub(filepath.Join(r.hubs, "hub"), r.tickets); err != nil {
		return err
	}
	r.later(r.hub.close)
	if clockRemark != "" {
		r.leave("clock", clockRemark)
	}
	if network, err := netfault.NewNet(); err != nil {
		r.leave("partitions of a network namespace", err.Error())
	} else {
		r.net = network
		r.later(func() { _ = network.Close() })
	}
	if err := r.openServer(ctx); err != nil {
		return err
	}
	if r.proxy, err = netfault.NewProxy(r.address.Host); err != nil {
		return err
	}
	r.later(func() { _ = r.proxy.Close() })
	return r.openDatabase(ctx)
}

func (r *run) folder() (string, error) {
	if r.cfg.Dir == "" {
		return os.MkdirTemp("", "pgfifo-torture-")
	}
	dir, err := filepath.Abs(filepath.Join(r.cfg.Dir, fmt.Sprintf("seed-%d", r.cfg.Seed)))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil { // of an earlier run
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (r *run) openServer(ctx context.Context) (err error) {
	opts := &pgserver.Options{
		Durable: true,
		Settings: map[string]string{
			"shared_buffers": "256MB", "max_connections": "500", "max_wal_size": "4GB", "log_line_prefix": logPrefix,
			"log_min_messages": "warning", "log_min_error_statement": "error", "log_checkpoints": "off",
			"autovacuum_naptime":        "5s",
			"max_prepared_transactions": "50",
		},
		Logf: r.log,
	}
	if r.net != nil {
		opts.Listen = []string{r.net.HostIP()}
	}
	if r.srv, err = pgserver.Start(ctx, opts); err != nil {
		return err
	}
	r.later(func() { _ = r.srv.Close() })
	if r.address, err = url.Parse(r.srv.URL); err != nil {
		return err
	}
	if r.srv.Halt == nil {
		for _, name := range []string{faultRestart, faultCrash} {
			r.leave(name, fmt.Sprintf("the server is not ours to break: it is from %q", r.srv.Source))
		}
	} else if runtime.GOOS == "windows" {
		r.leave(faultCrash, "a server process cannot be killed here")
	}
	if r.net != nil && r.srv.Source != "local" {
		r.leave("partitions of a network namespace",
			fmt.Sprintf("the server from %q does not listen there", r.srv.Source))
		r.net = nil
	}
	if err := r.shortenNotices(ctx); err != nil {
		r.leave(faultNotices, err.Error())
	}
	if r.srv.Log == "" {
		r.leave("I11", "the server's log is not at hand")
	}
	return nil
}

// openDatabase makes a migrated database with the handlers' tables.
func (r *run) openDatabase(ctx context.Context) error {
	r.database = fmt.Sprintf("pgfifo_torture_%d_%d", os.Getpid(), r.cfg.Seed%1000)
	if err := r.admin(ctx, "CREATE DATABASE "+r.database); err != nil {
		return err
	}
	r.later(r.dropDatabase)
	cfg, err := pgxpool.ParseConfig(r.at(r.address.Host))
	if err != nil {
		return err
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = harness
	if r.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	r.later(r.pool.Close)
	if err := migrations.Up(ctx, r.pool, nil); err != nil {
		return err
	}
	if _, err := r.pool.Exec(ctx, tablesSQL); err != nil {
		return err
	}
	if err := r.pool.QueryRow(ctx, `SELECT current_setting('max_prepared_transactions')::integer > 0, rolsuper
		FROM pg_roles WHERE rolname = current_user`).Scan(&r.prepare, &r.super); err != nil {
		return err
	}
	if !r.prepare {
		r.leave("PREPARE TRANSACTION of an enqueue", "max_prepared_transactions is 0")
	}
	if err := r.openTenant(ctx); err != nil {
		r.leave("SET LOCAL ROLE", err.Error())
	}
	if _, err := r.pool.Exec(ctx, "CREATE EXTENSION pgrowlocks"); err != nil {
		r.leave("I8: who holds locks", "no extension pgrowlocks: "+err.Error())
	} else {
		r.locks = true
	}
	r.client = fifo.Open(r.pool, &fifo.Config{Logger: logger(r.probes.log)})
	r.later(func() { _ = r.client.Close() })
	for name, q := range queues {
		if q.settings == (fifo.Settings{}) {
			continue
		}
		if err := r.client.Queue(name).Configure(ctx, q.settings); err != nil {
			return err
		}
	}
	return nil
}

// dropDatabase is of use on a server that is not the run's own.
func (r *run) dropDatabase() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = r.admin(ctx, "DROP DATABASE IF EXISTS "+r.database+" WITH (FORCE)")
	if r.tenant != "" {
		_ = r.admin(ctx, "DROP ROLE IF EXISTS "+r.tenant)
	}
}

// harness is the harness's own application_name.
const harness = "torture"

// at returns the URL of the run's database by which it is reached at a host and port.
func (r *run) at(host string) string {
	u := *r.address
	u.Path, u.Host = "/"+r.database, host
	return u.String()
}

// way returns the URL by which the processes of a way reach the server.
func (r *run) way(w way) string {
	switch w {
	case byProxy:
		return r.at(r.proxy.Addr())
	case byNet:
		return r.at(net.JoinHostPort(r.net.HostIP(), r.address.Port()))
	}
	return r.at(r.address.Host)
}

func (r *run) admin(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, r.srv.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// leave takes down what is left out, and why.
func (r *run) leave(what, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftOut[what] = why
	r.log("left out: %s: %s", what, why)
}

// tickets waits until there is something to send, and returns what.
func (r *run) tickets() (from, count int64) {
	const most = 50
	for {
		r.mu.Lock()
		granted := r.granted.Load()
		limit, last := r.gate()
		done := granted >= limit && last || r.stopping || r.enough.Load()
		if !done && granted < limit && granted-r.progress() < r.maxBacklog() {
			n := min(most, limit-granted)
			r.granted.Add(n)
			r.mu.Unlock()
			return granted + 1, n
		}
		r.mu.Unlock()
		if done {
			return 0, 0
		}
		_ = pause.For(context.Background(), 5*time.Millisecond)
	}
}

// gate returns how many messages may be sent by now, and whether that is all. No more are sent before more faults have
// begun, so that these come all through the run; and some are sent beyond Config.Jobs if the last faults need them.
func (r *run) gate() (limit int64, last bool) {
	jobs := int64(r.cfg.Jobs)
	if r.finished.Load() {
		return jobs, true
	}
	if begun := r.begun.Load(); begun < r.planned {
		return min(jobs, jobs*(begun+2)/(r.planned+1)) + r.extra.Load(), false
	}
	return jobs + r.extra.Load(), false
}

// progress is how many messages are done, roughly.
func (r *run) progress() int64 { return r.granted.Load() - r.backlog.Load() }

func (r *run) maxBacklog() int64 { return int64(min(max(r.cfg.Jobs/5, 500), 20_000)) }

// fail takes down a failure of the harness.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = errors.Join(r.failure, err)
}

func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// later has something done at the end, before what was to be done earlier.
func (r *run) later(f func()) { r.endings = append(r.endings, f) }

// close frees all that open made. The logs stay.
func (r *run) close() {
	r.halt()
	r.children.Wait()
	for _, f := range slices.Backward(r.endings) {
		f()
	}
}

// newRNG returns the random numbers for one purpose.
func (r *run) newRNG(purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(r.cfg.Seed, purpose)) }
