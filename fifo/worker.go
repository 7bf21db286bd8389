package fifo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// mostLanes is how many connections a server can have: no max_connections is higher.
const mostLanes = 262_143

// A Worker takes jobs and runs their handlers. Set its fields and handlers before Run or RunOne, and not after. A
// Queue may have its own MaxAttempts, Retry, JobTimeout and AbandonAfter. SetLanes may be called at any time.
type Worker struct {
	// Client says where the jobs are. Required.
	Client *Client
	// Concurrency is the number of lanes: how many jobs run at once. Each has a connection of its own, which the worker
	// dials itself with the configuration of the client's pool, its BeforeConnect and AfterConnect included: the pool's
	// connections stay free for the application. The worker's own settings are made after AfterConnect, and win over
	// it. Defaults to 10; at most 262,143, as PostgreSQL's max_connections. For queues with Settings.SessionLease it is
	// how many jobs may have a transaction at once, and SessionConcurrency is how many run.
	Concurrency int
	// SessionConcurrency is how many jobs run at once of the queues with Settings.SessionLease, all together. One
	// connection holds their groups. Concurrency more are for their transactions: a handler has one from the first call
	// of Job.Tx, or of its like, until it returns. If there are other queues, their lanes have connections of their
	// own besides. Defaults to 100; at most 262,143.
	SessionConcurrency int
	// Direct says how to reach the server itself, where the client's pool goes through a pooler in transaction mode: a
	// pgx.ParseConfig of the direct address that hosted services have beside the pooled one. Then the connections that
	// have to be sessions are made with it: those that hold groups, look for work and listen, and lanes. Those that
	// jobs of queues with Settings.SessionLease share go through the pooler, and so does all that the client does.
	// Both must lead to the same database (ErrInvalidWorker). Defaults to nil: the pool's configuration, which must not
	// lead to such a pooler (ErrPooled).
	Direct *pgx.ConnConfig
	// MaxAttempts is how often a job is tried before it is given up, unless its message says. An attempt that was lost
	// with its worker counts. Defaults to DefaultMaxAttempts; negative: no limit.
	MaxAttempts int
	// Retry returns how long to wait before the next attempt of a job whose attempt number job.Attempt() has failed
	// with err, which is ErrLost if the attempt died with its worker. The rest of the group waits too. 0 or less means
	// at once, and more than MaxDelay means MaxDelay. See Backoff. The lane waits for it, so it should be quick.
	// Defaults to DefaultRetry.
	Retry func(job *Job, err error) time.Duration
	// JobTimeout is how long a handler may run before its context is cancelled with ErrJobTimeout. A job is an open
	// transaction, unless its queue has Settings.SessionLease, and a long one keeps vacuum from cleaning up in the
	// whole database. A batch may take as long for each of its jobs. If the handler returns an error after that, the
	// attempt has failed as KindTimeout, unless it says Snooze or Unavailable; if it returns nil, the job is done.
	// Until it returns, it keeps its group, its lane and its transaction; see AbandonAfter. Defaults to 15 minutes;
	// negative: no limit.
	JobTimeout time.Duration
	// AbandonAfter is how long a handler may go on after its context has ended. Then its connection is closed, so that
	// nothing of what it wrote through the job's transaction can commit, and its lane goes on with a new connection.
	// The attempt has failed as KindTimeout after ErrJobTimeout, and as KindLost after the other causes, or if another
	// worker finds the job before that is recorded. Settled is told ErrAbandoned. Go cannot end the handler: it goes on
	// beside the next attempt of its job, with a Job whose methods return errors, and keeps its goroutine and its
	// memory for as long as it likes (Stats.Abandoned). Defaults to 0: never, as negative does.
	AbandonAfter time.Duration
	// PollInterval is how often the worker looks for work of which no notification has told it. Defaults to 1 second.
	PollInterval time.Duration
	// DrainTimeout is how long Run waits for running handlers when it is told to stop, before it cancels their contexts
	// with ErrShutdown. Handlers then have 5 seconds to return, and lanes 2 more to close: 27 seconds in all by
	// default, less than the 30 that Kubernetes gives a process. A job whose handler returns an error after that cancel
	// is given back uncounted, whatever the error is: a DeadLetter or a RetryAfter, too. But not if its context had
	// ended before, after JobTimeout say. If it returns nil, the job is done. Defaults to 20 seconds; negative: cancel
	// at once.
	DrainTimeout time.Duration
	// Heartbeat is the longest time that a connection which a handler leaves alone says nothing: the worker sends
	// something twice in that time. It and the next two bound how long a dead or silent worker can keep a group, and
	// how soon its handlers learn of it; the package's documentation, under Silence, says what follows from them.
	// Defaults to 1 second; at least 1 millisecond.
	Heartbeat time.Duration
	// Silence is how long the server may leave a heartbeat unanswered before the handler's context is cancelled. It is
	// also how long a cancelled statement may take to end before its connection is given up, and the longest timeout
	// for connecting. Defaults to 10 seconds; at least 100 milliseconds.
	Silence time.Duration
	// ServerSilence is how long the server waits for a worker that says nothing before it ends the session and frees
	// the group. It becomes idle_in_transaction_session_timeout, tcp_user_timeout and the tcp_keepalives settings of
	// the worker's own connections. Two thirds of it must be more than a handler may take to hear of a silent server,
	// or Run returns ErrInvalidWorker: it is never 3.375 seconds or less. Nor may it be longer than these settings can:
	// 2147483647 milliseconds, which is 24.8 days, and so neither may Heartbeat and Silence. Defaults to 30 seconds.
	ServerSilence time.Duration
	// Name is what operators know the worker by: the application_name of its sessions, and the Worker of a Failure.
	// Both have its first 63 bytes, and a "?" for each byte that is not printable ASCII. ErrInvalidWorker if it is not
	// valid UTF-8, or has a NUL. Defaults to the pool's application_name, or to "pgfifo host:pid" if that has none, in
	// which a long host is cut.
	Name string
	// SweepInterval is how often this worker tries to do the housekeeping that one worker at a time does for all; it
	// does nothing while another one is at it. A sweep collects the rows of idle groups, and drops deduplication ids
	// that have expired and dead letters, of any queue, that are older than its Settings.DeadLetterRetention. Missing
	// group rows need no sweep: looking for work makes them. Defaults to 1 minute; negative: never.
	//
	// Each time, every worker also looks for foreign keys that refer to jobs or queue_groups, and logs a warning once
	// for each: a row that refers to a running job hides which worker has that job.
	//
	// It also looks for queues that it does not handle, and perhaps no worker does: a name with a typo, say. If the job
	// at the head of such a queue's first group has been due for ten times SweepInterval, 10 minutes by default, and is
	// neither held nor paused, the worker logs a warning: once for each queue in a Run. It cannot know what other
	// workers handle. If "seen" is false in the log, none that handles the queue has looked at the group yet; if it is
	// true, those that do may be late, or gone. The first group is the one whose id sorts first; the others are not
	// looked at.
	SweepInterval time.Duration
	// GroupIdle is how old a group's row must be for a sweep to collect it when the group has no jobs. Defaults to 10
	// minutes; not negative.
	GroupIdle time.Duration

	queues  map[string]Queue
	running atomic.Bool
	lanes   laneBounds
	stats   counters
}

const applicationName = "application_name"

// Handle makes h work the jobs of a queue, each in a transaction of its own: HandleQueue with the defaults.
func (w *Worker) Handle(queue string, h Handler) { w.HandleQueue(queue, Queue{Handler: h}) }

// HandleQueue says how the jobs of a queue are worked. It panics if the worker runs, if the queue's name is invalid or
// was given before, if there is no handler or there are two, or for bounds that make no sense. It panics, too, if the
// queue's dead letters would come back to it, through the DeadLetterQueues of the worker's queues; what other workers
// do with theirs is not known.
func (w *Worker) HandleQueue(queue string, q Queue) {
	if err := groups.ValidateID("queue", queue); err != nil {
		panic(err)
	}
	if w.running.Load() {
		panic("fifo: the worker runs already; queue " + queue + " comes too late")
	}
	if _, ok := w.queues[queue]; ok {
		panic("fifo: queue " + queue + " has a handler already")
	}
	if err := q.validate(); err != nil {
		panic(fmt.Sprintf("fifo: queue %s: %v", queue, err))
	}
	for next := q.DeadLetterQueue; next != ""; next = w.queues[next].DeadLetterQueue {
		if next == queue {
			panic(fmt.Sprintf("fifo: queue %s: its dead letters come back to it", queue))
		}
	}
	if w.queues == nil {
		w.queues = make(map[string]Queue)
	}
	w.queues[queue] = q
	w.lanes.set(queue, q.MinLanes, q.MaxLanes)
}

// SetLanes changes how many of the worker's lanes are kept for a queue, and how many may work it at once: MinLanes and
// MaxLanes of its Queue. A maxLanes of 0 is no bound; to stop a queue, pause it. SetLanes may be called at any time. It
// holds for claims from then on: handlers that run go on. It returns an error that wraps ErrInvalidWorker if the queue
// has no handler, if minLanes is over maxLanes, or if the worker runs and all queues together would keep more lanes
// than it has, or leave none for one that keeps none. Then nothing is changed.
func (w *Worker) SetLanes(queue string, minLanes, maxLanes int) error {
	if _, ok := w.queues[queue]; !ok {
		return fmt.Errorf("%w: queue %q has no handler", ErrInvalidWorker, queue)
	}
	if err := validLanes(minLanes, maxLanes); err != nil {
		return fmt.Errorf("%w: queue %q: %w", ErrInvalidWorker, queue, err)
	}
	return w.lanes.change(queue, minLanes, maxLanes)
}

// withDefaults returns the settings that apply, or ErrInvalidWorker.
func (w *Worker) withDefaults() (settings, error) {
	s := settings{
		kind: transaction, lanes: w.concurrency(),
		// neither twice poll nor drain plus grace may overflow
		poll:  min(cmp.Or(w.PollInterval, time.Second), math.MaxInt64/4),
		drain: min(max(cmp.Or(w.DrainTimeout, 20*time.Second), 0), math.MaxInt64-grace),
		sweep: cmp.Or(w.SweepInterval, time.Minute), groupIdle: cmp.Or(w.GroupIdle, 10*time.Minute),
		bounds: lease.Bounds{
			Heartbeat: w.Heartbeat, Silence: w.Silence, ServerSilence: w.ServerSilence,
		}.WithDefaults(),
		names: slices.Sorted(maps.Keys(w.queues)), queues: make(map[string]*Queue, len(w.queues)),
	}
	name, badName := workerName(w)
	s.name = name
	for name, q := range w.queues {
		q = q.withDefaults(w)
		s.queues[name] = &q
	}
	switch {
	case w.Client == nil:
		return s, fmt.Errorf("%w: Client is nil", ErrInvalidWorker)
	case w.Client.closed.Load(): // its handlers would have no transaction
		return s, fmt.Errorf("%w: Client is closed", ErrInvalidWorker)
	case len(w.queues) == 0:
		return s, ErrNoHandler
	case s.poll < 0:
		return s, fmt.Errorf("%w: PollInterval %v is negative", ErrInvalidWorker, s.poll)
	case s.groupIdle < 0:
		return s, fmt.Errorf("%w: GroupIdle %v is negative", ErrInvalidWorker, s.groupIdle)
	case badName != nil:
		return s, badName
	case w.Direct != nil && w.Direct.RuntimeParams == nil:
		return s, fmt.Errorf("%w: Direct was not made by pgx.ParseConfig", ErrInvalidWorker)
	}
	for _, k := range kinds {
		switch n := k.lanes(w); {
		case n < 0:
			return s, fmt.Errorf("%w: %s %d is negative", ErrInvalidWorker, k.concurrency, n)
		case n > mostLanes:
			return s, fmt.Errorf("%w: %s %d is over %d", ErrInvalidWorker, k.concurrency, n, mostLanes)
		}
	}
	if err := s.bounds.Validate(); err != nil {
		return s, fmt.Errorf("%w: %w", ErrInvalidWorker, err)
	}
	return s, w.Client.err
}

func (w *Worker) concurrency() int { return cmp.Or(w.Concurrency, 10) }

func (w *Worker) sessionConcurrency() int { return cmp.Or(w.SessionConcurrency, 100) }

// Run works jobs until ctx is done. Then it takes no more, waits DrainTimeout for those running, cancels the contexts
// of those that still run, which gives their jobs back, and returns nil if all handlers ended within 5 seconds. If
// not, it closes their connections. It does so, too, if the server does not answer: a COMMIT that waits for a standby,
// say. In any case it returns 7 seconds after DrainTimeout at the latest, or 11 if the Logger blocks. It names what is
// left behind, such as an abandoned handler that still runs, in an error that wraps ErrDrainTimeout.
//
// It returns an error at once if the worker or the database is not set up right: ErrInvalidWorker, ErrNoHandler,
// ErrRunning, ErrConnections, ErrPooled, ErrStandby, ErrRights, ErrNonconforming, the errors of migrations.Check. A
// connection that is lost later is dialed again, and what the server refuses later is tried again, for as long as it
// takes; that is logged.
func (w *Worker) Run(ctx context.Context) error {
	set, err := w.withDefaults()
	if err != nil {
		return err
	}
	if !w.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer w.running.Store(false)
	if err := w.Client.checkPool(ctx); err != nil {
		if ctx.Err() != nil { // told to stop before it began
			return nil
		}
		return denied(err)
	}
	crews, err := newCrews(ctx, w, set)
	var end func()
	if err == nil {
		end, err = w.lanes.begin(crews)
	}
	if err != nil {
		for _, c := range crews {
			c.closeLanes()
		}
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer end()
	var running sync.WaitGroup
	log, errs := w.Client.cfg.Logger, make([]error, len(crews))
	briefly(func() {
		for _, c := range crews {
			log.Info("pgfifo: worker started", "queues", c.set.names, "lanes", c.set.lanes)
		}
	})
	for i, c := range crews {
		running.Go(func() { errs[i] = c.run(ctx) })
	}
	running.Wait()
	crews[0].teller.end(log) // they share one
	if err = errs[0]; len(errs) > 1 {
		err = errors.Join(errs...)
	}
	var stopped []any
	if err != nil {
		stopped = []any{"error", err}
	}
	briefly(func() { log.Info("pgfifo: worker stopped", stopped...) })
	return err
}

// RunOne works one job, if any may run now, and reports whether it did. It works only one job also of a queue with
// batches. It is for tests and for cron: it dials a connection, looks at all groups, and closes the connection. The
// handler's failure is recorded as by Run, and is not an error of RunOne. RunOne returns the errors that Run returns at
// once, except ErrRunning; it does not look at MinLanes. If ctx ends meanwhile, the job is given back; a handler that
// goes on for 5 seconds is abandoned, and the error wraps ErrDrainTimeout. That bounds handlers, and the hooks around
// them (Hooks.Job). RunOne waits for Hooks.Settled and the Logger for as long as they take. A job whose last attempt
// was lost begins at once, even beside another one that Run has begun.
func (w *Worker) RunOne(ctx context.Context) (bool, error) {
	set, err := w.withDefaults()
	if err != nil {
		return false, err
	}
	if err := w.Client.checkPool(ctx); err != nil {
		return false, denied(err)
	}
	set.lanes, set.once = 1, true
	c := newCrew(w, set)
	if err := checkDirect(ctx, c.dialer); err != nil {
		return false, err
	}
	if err := c.dial(ctx); err != nil {
		return false, err
	}
	defer c.closeLanes()
	return c.runOne(ctx)
}

// Stats are counters since the Worker was made, except Lanes, LookedAt, Running, Overdue, Abandoned and Probed, which
// tell of this moment.
type Stats struct {
	// Lanes is how many jobs could run now, as far as is known: lanes that have a connection, and, while there is a
	// session for them, SessionConcurrency more. None unless Run is under way.
	Lanes    int
	LookedAt time.Time // when Run last looked for work with success, see Ready; zero: not yet, or it is not under way

	Running   int // jobs whose handlers run
	Overdue   int // of those, the ones whose handlers have gone on for a second after the end of their contexts
	Abandoned int // jobs whose handlers still run although the worker gave them up

	TimesOverdue   int64 // attempts that were overdue
	TimesAbandoned int64 // attempts that were abandoned; the counters of their outcomes have them, too

	Succeeded int64 // jobs done
	Retried   int64 // failed attempts with another to come
	Buried    int64 // jobs that became dead letters, or moved to a DeadLetterQueue
	Returned  int64 // given back uncounted: the worker stops, Cancel, the batch failed or could not be completed
	Snoozed   int64 // jobs that their handlers gave back until later
	Blocked   int64 // times that a job has stopped its group, see BlockGroup
	Discarded int64 // jobs that were given up and deleted
	Unknown   int64 // attempts that this worker lost with their connection, or abandoned, except after JobTimeout
	Lost      int64 // lost attempts, of any worker, that this one found and counted; they count as failed, too
	Claims    int64 // groups tried
	Missed    int64 // of those, how many had nothing to run or were held by others
	Troubles  int64 // times that the server refused something about a group, which then waits, longer each time

	Probed []string // queues that are unavailable, of which Run tries one job at a time, see Unavailable; sorted
}

// Stats returns a snapshot of the counters.
func (w *Worker) Stats() Stats {
	c := &w.stats
	s := Stats{
		Running:   int(c.running.Load()),
		Succeeded: c.outcomes[Succeeded].Load(), Retried: c.outcomes[Retried].Load(),
		Buried: c.outcomes[Buried].Load(), Returned: c.outcomes[Returned].Load(), Snoozed: c.outcomes[Snoozed].Load(),
		Blocked: c.outcomes[Blocked].Load(), Discarded: c.outcomes[Discarded].Load(),
		Unknown: c.outcomes[Unknown].Load(), Lost: c.lost.Load(),
		Claims: c.claims.Load(), Missed: c.missed.Load(), Troubles: c.troubles.Load(),
		Overdue: int(c.overdue.Load()), TimesOverdue: c.timesOverdue.Load(),
		Abandoned: int(c.abandoned.Load()), TimesAbandoned: c.timesAbandoned.Load(),
	}
	for i, c := range w.lanes.crews() {
		s.Lanes += c.connected()
		s.Probed = append(s.Probed, c.turns.Probed()...)
		if at := c.scout.Looked(); i == 0 || at.Before(s.LookedAt) {
			s.LookedAt = at
		}
	}
	slices.Sort(s.Probed)
	return s
}

type counters struct {
	running        atomic.Int64
	outcomes       [Unknown + 1]atomic.Int64
	claims, missed atomic.Int64
	lost, troubles atomic.Int64

	overdue, timesOverdue     atomic.Int64
	abandoned, timesAbandoned atomic.Int64
}

// parallelDials bounds how many connections are opened at once: each is a process that PostgreSQL forks.
func parallelDials() int { return max(4, runtime.GOMAXPROCS(0)) }
