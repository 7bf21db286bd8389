package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// A traffic is a number of jobs, and when each of them passed which point. A lane that works a job notes it in the
// job's own passage; nothing is shared but the count of starts, so that looking changes little. It is read when all is
// over.
type traffic struct {
	begin    time.Time
	origin   time.Duration // since begin: when sending began
	starts   atomic.Int64  // handlers started so far
	passages []passage
}

// A passage is one job's. Times are since the beginning of the traffic, and each has the number of handlers that had
// started by then.
type passage struct {
	group  int
	number uint64 // in its group
	hot    bool
	due    time.Duration // of its arrival, since sending began

	sent, started, settled moment
}

type moment struct {
	at     time.Duration
	starts int64 // for started: without this one
}

// newTraffic draws n jobs over groups. The hot groups get any places in the order of ids, in which workers look for
// them.
func newTraffic(n, groups int, sh shape) *traffic {
	t := &traffic{begin: time.Now(), passages: make([]passage, n)}
	place, rank, hot := rand.Perm(groups), sh.draw(groups), sh.hot(groups)
	numbers := make([]uint64, groups)
	for i := range t.passages {
		r := rank()
		t.passages[i] = passage{group: place[r], number: numbers[r], hot: r < hot}
		numbers[r]++
	}
	return t
}

// arrive makes the traffic a Poisson process.
func (t *traffic) arrive(rate float64) {
	at := time.Duration(0)
	for i := range t.passages {
		at += time.Duration(rand.ExpFloat64() / rate * float64(time.Second))
		t.passages[i].due = at
	}
}

func (t *traffic) now() moment { return moment{time.Since(t.begin), t.starts.Load()} }

func (t *traffic) payload(i int) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, t.passages[i].number), uint64(i))
}

// passage returns a job's, or nil for one that is none of the traffic's.
func (t *traffic) passage(job *fifo.Job) *passage {
	if len(job.Payload) != 16 {
		return nil
	}
	return &t.passages[binary.BigEndian.Uint64(job.Payload[8:])]
}

// handle is a handler that does nothing else.
func (t *traffic) handle(_ context.Context, job *fifo.Job) error {
	if p := t.passage(job); p != nil {
		t.start(p)
	}
	return nil
}

// start notes the start of a job.
func (t *traffic) start(p *passage) { p.started = moment{time.Since(t.begin), t.starts.Add(1) - 1} }

// again is the same traffic before anything has passed.
func (t *traffic) again() *traffic {
	return &traffic{begin: time.Now(), passages: slices.Clone(t.passages)}
}

// tally is complete when all of the traffic and so many others have been worked. It notes when jobs were settled.
func (t *traffic) tally(others int) *tally {
	y := newTally(len(t.passages) + others)
	y.counts = func(job *fifo.Job) bool {
		if p := t.passage(job); p != nil {
			p.settled = t.now()
		}
		return true
	}
	return y
}

// load puts everything into the table, before any worker is there.
func (t *traffic) load(ctx context.Context, c *crew) error {
	rows := pgx.CopyFromSlice(len(t.passages), func(i int) ([]any, error) {
		return []any{queue, groupID(t.passages[i].group), t.payload(i)}, nil
	})
	table := pgx.Identifier{cmp.Or(c.schema, "pgfifo"), "jobs"}
	n, err := c.db.pool.CopyFrom(ctx, table, []string{"queue", "group_id", "payload"}, rows)
	c.filled += n
	return err
}

// callful bounds the messages of one call.
const callful = 1000

// send enqueues every message at its time: all that are due go into the next call, so one producer keeps up. A message
// that waits for the call before it is late, and still counts from its own time.
func (t *traffic) send(ctx context.Context, c *crew) error {
	client := c.client()
	defer func() { _ = client.Close() }()
	if _, err := client.Queue(queue).Jobs(ctx, fifo.Page{Limit: 1}); err != nil { // the first call checks the schema
		return err
	}
	t.origin = time.Since(t.begin)
	for first := 0; first < len(t.passages); {
		if err := pause.For(ctx, t.origin+t.passages[first].due-time.Since(t.begin)); err != nil {
			return err
		}
		now := time.Since(t.begin) - t.origin
		var msgs []fifo.Message
		for i := first; i < len(t.passages) && len(msgs) < callful && t.passages[i].due <= now; i++ {
			msgs = append(msgs, fifo.Message{
				Queue: queue, GroupID: groupID(t.passages[i].group), Payload: t.payload(i),
			})
		}
		if _, err := client.Enqueue(ctx, msgs...); err != nil {
			return err
		}
		sent := t.now()
		for i := range msgs {
			t.passages[first+i].sent = sent
		}
		first += len(msgs)
		c.filled += int64(len(msgs))
	}
	return nil
}

// sendEach has every message sent by itself at its time, whatever becomes of those before, and waits for all of them.
func (t *traffic) sendEach(ctx context.Context, send func(ctx context.Context, i int) error) error {
	var eg errgroup.Group
	t.origin = time.Since(t.begin)
	for i := range t.passages {
		p := &t.passages[i]
		if err := pause.For(ctx, t.origin+p.due-time.Since(t.begin)); err != nil {
			break
		}
		eg.Go(func() error {
			err := send(ctx, i)
			p.sent = t.now()
			return err
		})
	}
	return eg.Wait()
}

// zipfS is the exponent: the group of rank k gets a share of the messages in proportion to k to the power of -zipfS.
const zipfS = 1.1

// A shape says how messages are spread over groups.
type shape struct {
	name string
	hot  func(groups int) int // how many groups count as hot: those of the first ranks
	draw func(groups int) func() int
}

// skews are the uneven ones.
var skews = []shape{
	{name: "zipf 1.1", draw: zipfian, hot: func(groups int) int { return max(groups/100, 1) }},
	{name: "half in one", draw: halfInOne, hot: func(int) int { return 1 }},
}

// even is every group's turn, by chance; none is hot.
var even = shape{
	name: "even", hot: func(int) int { return 0 },
	draw: func(groups int) func() int { return func() int { return rand.IntN(groups) } },
}

// zipfian draws the rank of a group, from 0.
func zipfian(groups int) func() int {
	z := rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), zipfS, 1, uint64(groups-1))
	return func() int { return int(z.Uint64()) }
}

// halfInOne gives half of all messages to one group, and spreads the rest evenly.
func halfInOne(groups int) func() int {
	return func() int {
		if groups == 1 || rand.IntN(2) == 0 {
			return 0
		}
		return 1 + rand.IntN(groups-1)
	}
}
