package soak

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A Level is what there is of everything that may leak, at one moment.
type Level struct {
	Goroutines  map[string]int // by stack
	Connections map[string]int // client sessions of the database, by application_name
	IdleInTx    int            // of these, how many are idle in a transaction
	Prepared    int            // prepared transactions
	Locks       int            // held by these
	TempTables  int
	Files       int // open file descriptors; -1: this system does not tell
}

// count returns how many there are in all.
func count(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// A gauge looks at the process and at the server, on a connection of its own.
type gauge struct {
	conn    *pgx.Conn
	samples []sample
}

func newGauge(ctx context.Context, url string) (*gauge, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = "soak gauge"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	return &gauge{conn: conn}, err
}

func (g *gauge) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = g.conn.Close(ctx)
}

const levelSQL = `SELECT
	(SELECT count(*) FILTER (WHERE state LIKE 'idle in transaction%') FROM pg_stat_activity
	 WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()),
	(SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
	(SELECT count(*) FROM pg_locks JOIN pg_stat_activity a USING (pid)
	 WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND pid <> pg_backend_pid()),
	(SELECT count(*) FROM pg_class WHERE relpersistence = 't')`

func (g *gauge) level(ctx context.Context) (*Level, error) {
	l := &Level{Connections: make(map[string]int), Goroutines: goroutines(), Files: openFiles()}
	rows, err := g.conn.Query(ctx, `SELECT regexp_replace(application_name, '^$', '(none)'), count(*)
		FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend' GROUP BY 1`)
	if err != nil {
		return nil, err
	}
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		l.Connections[name] = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, g.conn.QueryRow(ctx, levelSQL).Scan(&l.IdleInTx, &l.Prepared, &l.Locks, &l.TempTables)
}

// patience is how long what is on its way out may take: a backend ends a moment after its connection.
const patience = 15 * time.Second

// atRest returns the level once nothing is above that of before, or the last one if that takes too long. Without a
// before, it is the level once that stands still.
func (g *gauge) atRest(ctx context.Context, pool *pgxpool.Pool, before *Level) (*Level, error) {
	pool.Reset()
	last := before
	for deadline := time.Now().Add(patience); ; {
		l, err := g.level(ctx)
		if err != nil {
			return nil, err
		}
		still := last != nil && len(l.above(last)) == 0
		if still || time.Now().After(deadline) {
			return l, nil
		}
		if before == nil {
			last = l
		}
		if err := pause.For(ctx, 300*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// above tells what there is more of than there was.
func (l *Level) above(before *Level) (more []string) {
	say := func(what string, was, is int) {
		if is > was {
			more = append(more, fmt.Sprintf("%s: %d, and before %d", what, is, was))
		}
	}
	for _, stack := range slices.Sorted(maps.Keys(l.Goroutines)) {
		say("goroutines at\n"+stack, before.Goroutines[stack], l.Goroutines[stack])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Connections)) {
		say(fmt.Sprintf("connections of %q", name), before.Connections[name], l.Connections[name])
	}
	say("sessions idle in a transaction", before.IdleInTx, l.IdleInTx)
	say("prepared transactions", before.Prepared, l.Prepared)
	say("locks", before.Locks, l.Locks)
	say("temporary tables", before.TempTables, l.TempTables)
	say("open files", before.Files, l.Files)
	return more
}

// goroutines counts the other goroutines by their stacks, without what differs between two of a kind.
func goroutines() map[string]int {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+100)
	n, ok := runtime.GoroutineProfile(records)
	for !ok {
		records = make([]runtime.StackRecord, n+100)
		n, ok = runtime.GoroutineProfile(records)
	}
	counts := make(map[string]int)
	for i := range records[:n] {
		var b strings.Builder
		frames := runtime.CallersFrames(records[i].Stack())
		for {
			f, more := frames.Next()
			_, _ = fmt.Fprintf(&b, "\t%s\n", f.Function)
			if !more {
				break
			}
		}
		if stack := b.String(); !strings.Contains(stack, "runtime.GoroutineProfile") {
			counts[stack]++
		}
	}
	return counts
}

// openFiles counts this process's file descriptors, where /proc has them.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(list)
}
