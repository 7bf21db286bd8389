package torture

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A history is all that is known of a run when it is over. The checkers read it, and nothing else.
type history struct {
	procs    []string // names; events refer to them by index
	events   []event  // by time
	enqueues []enqueue
	writes   []sinkWrite
	marks    []mark
	samples  []lockSample
	breaches []breach // found by the run itself
	serverLog
	tables

	end  endState
	soak bool // the processes look at themselves
	long bool // for long enough to see memory grow
}

// An enqueue is one message of a producer, and what became of its call.
type enqueue struct {
	n      int64 // the message's number
	id     int64 // the job's, or that which a duplicate is one of; 0: not known
	invoke int64
	back   int64 // when the call returned; 0: it did not
	delay  int64 // for so long it was not to run
	twins  int64 // what names it for deduplication; 0: nothing
	// replaced says that it is the job of the other one with that name now.
	replaced bool
	why      string // it failed
	group    int32
	result   result
	how      string
}

// A result is what a producer knows of an enqueue.
type result uint8

const (
	resUnknown result = iota
	resOK
	resFailed
)

// aDuplicate is why an enqueue has failed that was told so.
const aDuplicate = "a duplicate"

// tables are what is left in the database.
type tables struct {
	effects []effect // by group and place
	chains  map[int32]chain
	dead    []deadLetter
	left    []int64 // jobs not done
	strays  []stray
}

type effect struct {
	group   int32
	place   int64
	job     int64
	attempt int32
	msg     int64
}

// A stray is a write of a handler that had returned, or of one that failed.
type stray struct {
	group   int32
	job     int64
	attempt int32
	how     string
}

type chain struct {
	length int64
	hash   []byte
}

type deadLetter struct {
	id       int64
	msg      int64
	attempts int32
	failures int32
	group    int32
	queue    string
	do       string // what its handler was to do
}

// history reads the logs and the tables.
func (r *run) history(ctx context.Context) (*history, error) {
	r.mu.Lock()
	h := &history{
		marks: r.marks, samples: r.samples, breaches: r.drain, end: r.end,
		writes: r.hub.writes, soak: r.cfg.Soak, long: r.cfg.For > 0,
	}
	workers := r.spawned
	r.mu.Unlock()
	for i := range workers {
		name := fmt.Sprint("w", i+1)
		h.procs = append(h.procs, name)
		events, err := readEvents(filepath.Join(r.dir, name+".log"), int32(i))
		if errors.Is(err, fs.ErrNotExist) {
			continue // killed before it had one
		}
		if err != nil {
			return nil, err
		}
		h.events = append(h.events, events...)
	}
	slices.SortStableFunc(h.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for i := range r.cfg.Producers {
		if err := h.readEnqueues(filepath.Join(r.dir, fmt.Sprint("p", i+1, ".log"))); err != nil {
			return nil, err
		}
	}
	if err := h.readEnqueues(filepath.Join(r.dir, "probes.log")); err != nil {
		return nil, err
	}
	if err := h.readTables(ctx, r.pool); err != nil {
		return nil, err
	}
	return h, h.readServerLog(r.srv.Log, r.database, filepath.Join(r.dir, "server.log"))
}

// readEnqueues reads the log of a producer.
func (h *history) readEnqueues(path string) error {
	under := make(map[string][]int) // by operation: where in h.enqueues
	return lines(path, func(line string) error {
		f := strings.SplitN(line, " ", 5)
		if len(f) < 5 {
			return fmt.Errorf("%d fields in %q", len(f), line)
		}
		at, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return err
		}
		switch what, op := f[1], f[2]; what {
		case "log":
		case "invoke":
			for _, item := range strings.Split(f[4], ",") {
				e := enqueue{invoke: at, how: f[3]}
				if _, err := fmt.Sscanf(item, "%d:%d:%d:%d", &e.n, &e.group, &e.delay, &e.twins); err != nil {
					return fmt.Errorf("%q: %w", item, err)
				}
				under[op] = append(under[op], len(h.enqueues))
				h.enqueues = append(h.enqueues, e)
			}
		case "ok", "fail", "unknown":
			ids := strings.Split(f[4], ",")
			for i, at2 := range under[op] {
				e := &h.enqueues[at2]
				e.back = at
				switch what {
				case "ok":
					e.result = resOK
					id, duplicate := strings.CutPrefix(ids[i], "=")
					if duplicate {
						e.result, e.why = resFailed, aDuplicate
					}
					id, e.replaced = strings.CutPrefix(id, "*")
					if e.id, err = strconv.ParseInt(id, 10, 64); err != nil {
						return err
					}
				case "fail":
					e.result = resFailed
				}
				if what != "ok" {
					e.why = f[4]
				}
			}
			delete(under, op)
		default:
			return fmt.Errorf("what is %q", what)
		}
		return nil
	})
}

// readTables reads what is left in the database.
func (h *history) readTables(ctx context.Context, db *pgxpool.Pool) error {
	h.chains = make(map[int32]chain)
	var (
		e       effect
		group   int32
		c       chain
		d       deadLetter
		id      string
		payload []byte
		s       stray
		left    int64
	)
	return errors.Join(
		each(ctx, db, "SELECT grp, place, job, attempt, msg FROM effects ORDER BY grp, place",
			[]any{&e.group, &e.place, &e.job, &e.attempt, &e.msg}, func() error {
				h.effects = append(h.effects, e)
				return nil
			}),
		each(ctx, db, "SELECT grp, length, h FROM chains", []any{&group, &c.length, &c.hash}, func() error {
			h.chains[group] = chain{c.length, bytes.Clone(c.hash)}
			return nil
		}),
		each(ctx, db, `SELECT id, queue, group_id, attempts, coalesce(jsonb_array_length(failures), 0), payload
			FROM pgfifo.dead_letters ORDER BY id`,
			[]any{&d.id, &d.queue, &id, &d.attempts, &d.failures, &payload}, func() error {
				t, err := readTask(payload)
				if err != nil {
					return err
				}
				d.msg, d.do = t.N, t.Do
				d.group, err = groupFor(d.queue, id, t)
				h.dead = append(h.dead, d)
				return err
			}),
		each(ctx, db, `SELECT grp, job, attempt, how FROM strays
			UNION ALL SELECT -1, oid::bigint, 0, 'large object' FROM pg_largeobject_metadata`,
			[]any{&s.group, &s.job, &s.attempt, &s.how}, func() error {
				if s.group < 0 {
					s.job -= strays
				}
				h.strays = append(h.strays, s)
				return nil
			}),
		each(ctx, db, "SELECT id FROM pgfifo.jobs WHERE group_id NOT LIKE 'z%' ORDER BY id",
			[]any{&left}, func() error {
				h.left = append(h.left, left)
				return nil
			}))
}

func each(ctx context.Context, db *pgxpool.Pool, sql string, to []any, row func() error) error {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, to, row)
	return err
}
