package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// longestDelay is how long a message may be delayed, and its group with it.
const longestDelay = 1200 * time.Millisecond

// senders is how many goroutines of a producer process enqueue beside each other.
const senders = 3

// produce is the life of a producer process, until there is no more to send.
func produce(o order, book *journal, hub *rpc.Client) error {
	ctx := context.Background()
	pool, err := o.connect(ctx, senders)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := fifo.Open(pool, &fifo.Config{Logger: logger(book.log)})
	defer func() { _ = client.Close() }()
	go untilOrphaned(func(string) {})
	p := &producer{order: o, pool: pool, client: client, book: book, hub: hub}
	var before *level
	if o.Soak {
		if err := pool.Ping(ctx); err != nil {
			return err
		}
		before = atRest(pool)
	}
	var all sync.WaitGroup
	errs := make([]error, senders)
	for i := range errs {
		all.Go(func() { errs[i] = p.run(ctx) })
	}
	all.Wait()
	if o.Soak {
		debug.SetGCPercent(-1) // it would close what somebody has forgotten
		errs = append(errs, hub.Close(), client.Close())
		for _, what := range leftovers(pool, before) {
			errs = append(errs, errors.New("left behind: "+what))
		}
	}
	return errors.Join(errs...)
}

// A producer is a producer process.
type producer struct {
	order
	pool     *pgxpool.Pool
	client   *fifo.Client
	book     *journal
	hub      *rpc.Client
	ops      atomic.Int64
	prepares atomic.Int64
}

// run sends the messages of one ticket after the other.
func (p *producer) run(ctx context.Context) error {
	for {
		var t Ticket
		if err := p.hub.Call(hubName+".Ticket", p.Name, &t); err != nil || t.Count == 0 {
			return err
		}
		rng := rand.New(rand.NewPCG(p.Seed, uint64(t.From)))
		pick := p.picker(rng)
		end := t.From + t.Count
		for n := t.From; n < end; {
			if n+1 < end && rng.IntN(100) < 3 {
				p.sendTwins(ctx, rng, n, pick())
				n += 2
				continue
			}
			size := 1
			switch u := rng.IntN(100); {
			case u < 10:
				size = 2 + rng.IntN(10)
			case u < 15:
				size = 2
			}
			var tasks []task
			var to []int32
			for ; n < end && len(tasks) < size; n++ {
				tasks = append(tasks, newTask(rng, n, p.order))
				to = append(to, p.place(rng, n, pick()))
			}
			p.send(ctx, rng, tasks, to, 0)
		}
	}
}

// picker returns a function that picks a group.
func (p *producer) picker(rng *rand.Rand) func() int32 {
	if p.Zipf == 0 {
		return func() int32 { return p.group(rng.Int32N(int32(p.Groups))) }
	}
	zipf := rand.NewZipf(rng, p.Zipf, 1, uint64(p.Groups-1))
	return func() int32 { return p.group(int32(zipf.Uint64())) }
}

// place is the group of a message for which one was picked: one message in ten is of no group, and few groups have all
// those of queueSeveral, so that these meet.
func (p *producer) place(rng *rand.Rand, n int64, picked int32) int32 {
	switch {
	case p.Batch > 1 && rng.IntN(10) == 0:
		return looseFrom + int32(n)
	case queueOf(picked) == queueSeveral:
		return picked % 50
	}
	return picked
}

// sendTwins sends two messages with one DedupID, to one group, one way and another, and often at once.
func (p *producer) sendTwins(ctx context.Context, rng *rand.Rand, n int64, group int32) {
	var both sync.WaitGroup
	at := [2]int32{group, group}
	if at[0] = p.place(rng, n, group); at[0] < looseFrom {
		at[1] = at[0]
	} else {
		at[1] = at[0] + 1
	}
	for i, to := range at {
		t, own := newTask(rng, n+int64(i), p.order), rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		if t.kills() { // one that takes another's place has as many lives as that
			t.Do = ""
		}
		both.Go(func() { p.send(ctx, own, []task{t}, []int32{to}, n) })
		if rng.IntN(2) == 0 {
			both.Wait()
		}
	}
	both.Wait()
}

// How messages are sent.
const (
	howPlain    = "plain"    // Enqueue
	howPgx      = "pgx"      // EnqueuePgxTx, and commit
	howBun      = "bun"      // EnqueueTx in a bun.Tx, and commit
	howPrepare  = "prepare"  // EnqueuePgxTx, PREPARE TRANSACTION and COMMIT PREPARED
	howRollback = "rollback" // the same, and roll back
	howClash    = "clash"    // the harness itself: what cannot be given up
	howStubborn = "stubborn" // the harness itself: what does not end
)

var errRolledBack = errors.New("rolled back on purpose")

// send sends messages one way or the other, and logs what became of that. twins names them for deduplication, if it is
// not 0.
func (p *producer) send(ctx context.Context, rng *rand.Rand, tasks []task, to []int32, twins int64) {
	how := howPlain
	switch u := rng.IntN(100); {
	case u < 12:
		how = howPgx
	case u < 18:
		how = howBun
	case u < 21:
		how = howRollback
	case u < 24 && p.Prepare:
		how = howPrepare
	}
	linger := time.Duration(0) // with the transaction open, so that enqueues overlap
	if rng.IntN(4) == 0 {
		linger = time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
	}
	msgs := make([]fifo.Message, len(tasks))
	list := make([]string, len(tasks))
	for i, t := range tasks {
		msgs[i] = t.message(to[i])
		switch u := rng.IntN(400); {
		case u < 8:
			msgs[i].Delay = time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
		case u == 8:
			msgs[i].Delay = time.Duration(rng.Int64N(int64(longestDelay)))
		case u < 30:
			msgs[i].Priority = 1 + rng.IntN(fifo.MaxPriority)
		}
		if twins != 0 {
			msgs[i].DedupID = fmt.Sprint("twins ", twins)
			msgs[i].Replace = rng.IntN(2) == 0
		}
		list[i] = fmt.Sprint(t.N, ":", to[i], ":", msgs[i].Delay.Nanoseconds(), ":", twins)
	}
	_, err := p.book.enqueue(p.ops.Add(1), how, list, func() ([]fifo.Receipt, error) {
		return p.enqueue(ctx, how, linger, msgs)
	})
	if err != nil && !errors.Is(err, errRolledBack) {
		_ = pause.For(ctx, 20*time.Millisecond) // the server may be down
	}
}

// enqueue logs an enqueue of the messages in the list, and what became of it.
func (j *journal) enqueue(op int64, how string, list []string, call func() ([]fifo.Receipt, error),
) (receipts []fifo.Receipt, err error) {
	j.line("invoke %d %s %s", op, how, strings.Join(list, ","))
	receipts, err = call()
	switch {
	case err == nil:
		for i, got := range receipts {
			switch list[i] = fmt.Sprint(got.ID); {
			case got.Replaced:
				list[i] = "*" + list[i]
			case got.Duplicate:
				list[i] = "=" + list[i]
			}
		}
		j.line("ok %d %s %s", op, how, strings.Join(list, ","))
	case failed(err):
		j.line("fail %d %s %v", op, how, err)
	default:
		j.line("unknown %d %s %v", op, how, err)
	}
	return receipts, err
}

// notCommitted is an error before a transaction's COMMIT was sent: nothing of it can be there.
type notCommitted struct{ error }

func (e notCommitted) Unwrap() error { return e.error }

// committing is an error of a COMMIT that was sent. pgx calls some of them safe to retry that are not.
type committing struct{ error }

func (e committing) Unwrap() error { return e.error }

func inCommit(err error) error {
	if err != nil {
		err = committing{err}
	}
	return err
}

func (p *producer) enqueue(ctx context.Context, how string, linger time.Duration, msgs []fifo.Message,
) (receipts []fifo.Receipt, err error) {
	switch how {
	case howPrepare:
		return p.prepared(ctx, linger, msgs)
	case howPgx, howRollback:
		tx, err := p.pool.Begin(ctx)
		if err != nil {
			return nil, notCommitted{err}
		}
		defer tx.Rollback(ctx)
		calling := ctx
		if how == howRollback && linger == 0 { // and have the context end before the call, or in the middle of it
			short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(1000))*time.Microsecond)
			defer cancel()
			calling = short
		}
		if receipts, err = p.client.EnqueuePgxTx(calling, tx, msgs...); err != nil {
			return nil, notCommitted{err}
		}
		_ = pause.For(ctx, linger)
		if how == howRollback {
			_ = tx.Rollback(ctx)
			return nil, notCommitted{errRolledBack}
		}
		return receipts, inCommit(tx.Commit(ctx))
	case howBun:
		tx, err := p.client.DB().BeginTx(ctx, nil)
		if err != nil {
			return nil, notCommitted{err}
		}
		defer func() { _ = tx.Rollback() }()
		if receipts, err = p.client.EnqueueTx(ctx, tx, msgs...); err != nil {
			return nil, notCommitted{err}
		}
		_ = pause.For(ctx, linger)
		return receipts, inCommit(tx.Commit())
	default:
		receipts, err = p.client.Enqueue(ctx, msgs...)
		if msgs[0].DedupID != "" { // that takes a transaction
			err = inCommit(err)
		}
		return receipts, err
	}
}

// failed reports whether an enqueue is known to have had no effect.
func failed(err error) bool {
	var before notCommitted
	var commit committing
	var pgErr *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &before), errors.As(err, &connect), errors.Is(err, fifo.ErrInvalidMessage),
		errors.Is(err, pgx.ErrTxCommitRollback), pgconn.SafeToRetry(err) && !errors.As(err, &commit):
		return true
	case errors.As(err, &pgErr): // an error of the statement, not of the session's end
		return pgErr.Severity == "ERROR"
	}
	return false
}
