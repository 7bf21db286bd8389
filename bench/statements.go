package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// statements counts what a job costs: statements, as PostgreSQL counts them, and round trips.
type statements struct {
	jobs, groups, lanes, rounds int
}

func (s *statements) run(ctx context.Context, b *bench) error {
	if err := b.openStatements(ctx); err != nil {
		return err
	}
	err := b.exec(ctx, "CREATE TABLE effects (group_id text NOT NULL, job bigint PRIMARY KEY)")
	if err != nil {
		return err
	}
	var trips roundTrips
	b.dial = trips.dial
	idle := s.count(b, &trips, "pgfifo, no-op handler", nil)
	writing := s.count(b, &trips, "pgfifo, INSERT by PgxTx", insertEffect)
	err = hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), []contest{
		{system: idle.system, fill: idle.tell}, {system: writing.system, to: idle.system, fill: writing.tell},
	})
	if err != nil {
		return err
	}
	idle.list(b)
	writing.list(b)
	return nil
}

// insertEffect is a handler that writes one row together with its job's completion.
func insertEffect(ctx context.Context, job *fifo.Job) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO effects (group_id, job) VALUES ($1, $2)", job.GroupID, job.ID)
	return err
}

// A statementCount is what one kind of handler costs.
type statementCount struct {
	system  *system
	jobs    int
	trips   int64
	commits int64
	byText  map[string]*statement
}

func (s *statements) count(b *bench, trips *roundTrips, name string, h fifo.Handler) *statementCount {
	sc := &statementCount{byText: make(map[string]*statement)}
	c := &crew{db: b.database, groups: s.groups, lanes: s.lanes, handler: h}
	c.prepare()
	sc.system = &system{name: name, params: c.params(), work: func(ctx context.Context, n int) (time.Duration, error) {
		if err := errors.Join(c.fill(ctx, n), b.resetStatements(ctx)); err != nil {
			return 0, err
		}
		before, err := b.commits(ctx)
		if err != nil {
			return 0, err
		}
		trips.count.Store(0)
		took, err := c.work(ctx, n)
		if err != nil {
			return 0, err
		}
		sc.trips += trips.count.Load()
		gone := func(n int) bool { return n == 0 }
		if err := b.sessions(ctx, gone); err != nil { // the server counts a session's last commits when it ends
			return 0, err
		}
		after, err := b.commits(ctx)
		if err != nil {
			return 0, err
		}
		sc.commits += after - before
		sc.jobs += n
		return took, sc.add(ctx, b.database)
	}}
	return sc
}

func (sc *statementCount) add(ctx context.Context, db *database) error {
	list, err := db.statements(ctx)
	for _, s := range list {
		sum := sc.byText[s.label()]
		if sum == nil {
			sum = &statement{Query: s.Query}
			sc.byText[s.label()] = sum
		}
		sum.Calls += s.Calls
		sum.Total += s.Total
	}
	return err
}

// tell sums up. It includes the start and the end of the workers, and the look-ups beside the lanes. Of a prepared
// COMMIT, pg_stat_statements counts the first call of each connection only, so commits have a number of their own.
func (sc *statementCount) tell(r *Result, _ rounds) {
	var calls, total, looking float64
	for _, s := range sc.byText {
		calls, total = calls+float64(s.Calls), total+s.Total
		if s.discovers() {
			looking += s.Total
		}
	}
	jobs := float64(sc.jobs)
	r.Extra = map[string]float64{
		"statements_per_job": calls / jobs, "commits_per_job": float64(sc.commits) / jobs,
		"round_trips_per_job": float64(sc.trips) / jobs,
		"server_us_per_job":   total / jobs * 1000, "discovery_share": looking / total,
	}
}

// list prints the statements that take the most time.
func (sc *statementCount) list(b *bench) {
	const top = 8
	b.notef("\n%s:", sc.system.name)
	tw := tabwriter.NewWriter(b.notes, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "per job\tmean us\tus per job\tstatement")
	for _, s := range byTotal(sc.byText)[:min(top, len(sc.byText))] {
		_, _ = fmt.Fprintf(tw, "%.3f\t%.1f\t%.1f\t%s\n", float64(s.Calls)/float64(sc.jobs),
			s.Total/float64(s.Calls)*1000,
			s.Total/float64(sc.jobs)*1000, s.label())
	}
	_ = tw.Flush()
}

// roundTrips counts how often a client waited for an answer to what it had sent: PostgreSQL does not.
type roundTrips struct{ count atomic.Int64 }

func (r *roundTrips) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, trips: r}, nil
}

// A countedConn counts the first read after each write.
type countedConn struct {
	net.Conn
	trips *roundTrips
	asked atomic.Bool
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.asked.Swap(false) {
		c.trips.count.Add(1)
	}
	return n, err
}
