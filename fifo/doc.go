// Package fifo is a queue with message groups on PostgreSQL: the jobs of one group run one at a time and in order,
// those of different groups in parallel. Enqueue, the handler's writes and the job's completion can be part of the
// program's own transactions.
//
//	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
//	...
//	err = migrations.Up(ctx, pool, nil)
//	client := fifo.Open(pool, nil)
//	defer client.Close()
//
//	_, err = client.Enqueue(ctx, fifo.Message{Queue: "mail", GroupID: "user-7", Payload: Welcome{"Ada"}})
//
//	worker := &fifo.Worker{Client: client}
//	worker.Handle("mail", fifo.JSON(func(ctx context.Context, job *fifo.Job, m Welcome) error {
//		tx, err := job.Tx(ctx) // commits with the job, or not at all; bun's, with ? for a value: job.PgxTx has $1
//		if err != nil {
//			return err
//		}
//		_, err = tx.ExecContext(ctx, "INSERT INTO sent (name) VALUES (?)", m.Name)
//		return err
//	}))
//	err = worker.Run(ctx)
//
// # Words
//
// A producer sends a message; a stored message is a job. A queue has a handler; a message group, named by its group id,
// is an ordered line of jobs within a queue. A worker has lanes, one connection each; a lane claims a group, runs the
// job at its head, and settles it: records what became of it. A job whose attempts are used up is a dead letter;
// redriving makes it a job again, in its old place or at the tail of its group.
//
// # What is promised
//
//   - Order. Of two jobs of a group, the one with the lower id runs first. Ids are drawn inside the enqueue, so an
//     enqueue that returned before another began comes first. Enqueues that overlap, such as two open transactions,
//     are ordered by when they drew their ids, not by when they commit; if the one with the lower id commits after
//     the higher one ran, it runs next, and before all that is enqueued after that commit. Config.CommitOrder makes
//     producers of a group wait for each other instead.
//   - Exclusion. While a job's transaction is open, or with Settings.SessionLease while the session lives that has its
//     group, nobody else runs a job of the group, except as Settings.GroupLimit says. When a connection is lost, the
//     handler learns of it by its context (cause ErrLost). If the server ended the session, or the worker was frozen,
//     the handler may run beside its successor by then; Silence, below, says for how long at most. A handler that
//     Worker.AbandonAfter leaves behind runs beside its successor as well.
//   - Effects. What is written through job.Tx or job.PgxTx is committed exactly once, with the job's completion. That
//     transaction is READ COMMITTED, whatever the defaults are: lock the rows that a decision rests on (Job.Tx).
//     Effects elsewhere happen at least once: make them idempotent by an id of your own in the payload. The job's id
//     is not enough: a redrive to the tail, Move and DeadLetterQueue give it another one, and a server that has lost
//     commits (a standby that is promoted, synchronous_commit off, what a handler of a Relaxed queue enqueues) gives
//     out ids again. With the number of Job.Fence another system can refuse what a worker sends that does not know that
//     it has lost the job.
//   - Nothing lost. A job leaves the table by success, as a dead letter, by Purge or Delete, or by Discard. An attempt
//     that dies with its worker counts as one, so a job that kills its workers ends as a dead letter too. Package
//     internal/lease says which few are not counted. With few exceptions, a job whose handler has not begun is not
//     charged. When a process dies, all jobs that it runs are charged, and those that it is just claiming. In a batch
//     of several groups, one job can cost the others an attempt: see Queue.BatchGroups. A job must not use up the
//     attempts of others. So a worker claims the jobs whose last attempt was lost one after the other, once it knows of
//     them: the next when the end of one is recorded, or half a second after it has begun.
//   - Trouble stays where it is. A group that fails, waits or is paused holds up no other, unless its handler says
//     Unavailable, which is for the whole queue. Nor does one about which the server refuses something: it is left
//     alone for a while, longer each time, and counted (Stats.Troubles). The queues of a Worker share its lanes by
//     time: a lane that is free works the queue that has used least, and queues that have used the same take turns. So
//     a queue waits for the jobs that run, and not for another one's backlog. A queue that must not wait for them keeps
//     a lane: Queue.MinLanes. MaxLanes bounds how many a queue may have, and Worker.SetLanes changes both while the
//     worker runs.
//   - Hints only. Notifications tell workers where to look, and polling finds what they missed: see
//     Worker.PollInterval. The Client sends them by itself, after the commit. A commit of yours neither waits for one
//     nor fails because of one.
//   - No waiting. An enqueue never waits for a running job, whatever that job does. (One with a DedupID waits for
//     transactions that have enqueued the same, and with Config.CommitOrder an enqueue waits for those that have
//     enqueued to its groups. Such a transaction may be that of a running job.)
//
// # The life of a job
//
//	Enqueue ──▶ waits ──claim──▶ runs ──nil──▶ gone, with the handler's writes committed
//	              ▲                │
//	              │                ├─ error, panic, timeout, lost: same place, after Retry's delay; the group waits
//	              ├────────────────┤
//	              │                ├─ Snooze, Unavailable: same place, later, no attempt counted; the group waits
//	              └────────────────┤
//	                               └─ attempts used up, or DeadLetter ──▶ dead letter ──Redrive──▶ old place or tail
//
// A queue may do otherwise with a job that has used up its attempts (Queue.OnGiveUp): block the group until an operator
// resumes it or moves that job to the dead letters (Bury), or discard the job. In a queue that blocks, a job whose
// payload JSON cannot decode blocks its group at once. Queue.DeadLetterQueue names a queue to which the job moves in
// place of the dead letters, for a handler to work: to the end of its group there, with headers that say where it was.
//
// A Message that is Ungrouped is a group of its own: all of the above holds for it, and it has no order with others.
//
// While a Message with a Priority is the head of its group, the group goes before others of the queue, or of its share.
// The message overtakes none of its group. So that nobody starves, every tenth turn is that of the group which has
// waited longest in the worker.
//
// # Duplicates
//
// A message with a DedupID is enqueued once: another one with the same id is a duplicate, for 5 minutes from the first,
// by the server's clock. The id stays remembered when the job is done, dead, deleted or purged. The duplicate's receipt
// says so, with the first job's id. Ids are those of the queue, or of each group (Settings). ContentID makes one from a
// payload. Of two messages that are enqueued at once, the second waits for the first one's transaction: if that
// commits, the second is a duplicate; if not, it takes the first one's place. A redrive is no enqueue.
//
// With Message.Replace the newer message wins, as long as the first one's job waits and has its id: the job gets the
// newer payload and headers, and keeps its place and its time. A stream of newer messages postpones nothing, and each
// receipt says whether it replaced the job's (Receipt.Replaced) or was dropped.
//
// # Outages
//
// An outage of what all jobs of a queue depend on is not their fault: a handler that returns Unavailable uses up no
// attempt. When several groups of the queue have said so, the worker tries one job of it now and then, until one is
// done; then it works all of them again, at once. Unavailable is not for what one group alone depends on.
//
// # Silence
//
// The groups of a worker that dies are free at once. The defaults are good, also for slow handlers, unless you need the
// groups of a frozen worker in less than 30 seconds. Worker.Heartbeat, Silence and ServerSilence bound how long a
// worker that says nothing keeps its groups, and how soon its handlers learn of it. Silence is the worker's patience
// with the server, ServerSilence the server's with the worker. For these bounds a worker makes settings on its own
// sessions, as any role may. This is what follows:
//
//	what happens to the worker                    its group is free after        by
//	killed, or its connection closed              milliseconds                   the end of the session
//	killed in the middle of a statement           1 s                            client_connection_check_interval
//	frozen (SIGSTOP, a suspended machine)         ServerSilence, 30 s            idle_in_transaction_session_timeout,
//	                                                                             idle_session_timeout (SessionLease)
//	the same in the middle of a statement         the end of the statement, and  the same
//	                                              ServerSilence
//	cut off, or its machine gone                  5/6 of ServerSilence, 25 s     tcp_keepalives_*; if the server is on
//	                                                                             Linux 2/3, 20 s, by tcp_user_timeout
//	cut off with a reply on its way               2/3 of ServerSilence, 20 s     tcp_user_timeout
//
//	what the handler learns, by its context           after at most
//	its session was ended or the server restarted     Heartbeat, 1 s; at once in a statement
//	the server is silent                              Heartbeat + Silence, 11 s; by TCP, in a statement, 11.25 s
//
// In a statement, nothing but the socket watches: TCP probes after half of Silence and then every tenth of it, in whole
// seconds, until Silence is over, by timers that may be an eighth late. If the socket stays in order while no answer
// comes (a frozen server process, a pooler or proxy that lost the other side), the handler waits in its statement for
// as long as its own context lets it. A statement of the worker's own, to claim, settle or look for jobs, waits for
// Silence. Then another session is asked, one of the client's pool. If the server works on no such statement the
// connection is given up, and dialed again. If it does, the worker waits on, for a lock say. Meanwhile the lane does
// not count as connected (Worker.Ready).
//
// The second table is always shorter than the first: other bounds are refused (ErrInvalidWorker). So a handler is told
// before anybody else is given its group, as long as both sides live. That is not possible when the session is ended
// from the server's side, or when the worker itself is frozen. What a handler writes through the job's transaction is
// safe in any case: it cannot commit any more.
//
// For effects outside the database in those cases, the handler asks for a fencing token (Job.Fence) and sends it along;
// the other system refuses a lower one than it has seen. Tokens of a group grow with each claim that asks. A token is
// drawn by a statement on another connection, so that it is durable before it is used. After the draw, that statement
// looks whether the claim's transaction is still open. A later claim begins only when that transaction has ended. So a
// former holder gets a lower token than its successor, or none.
//
// What a handler does with its connection meanwhile decides who watches it. Heartbeats are sent whenever the server
// waits for the worker, beside open rows, too; up to 1 MiB of what a handler leaves unread is read ahead to find that
// out. Then:
//
//	the handler's use of the connection         the server                bounded by
//	none, or between statements                 idle in transaction       heartbeats
//	rows or results of a batch open, of which   idle in transaction       heartbeats
//	all is read, or up to 1 MiB is not
//	a statement runs, for as long as it may     active                    TCP
//	COPY FROM, a raw pipeline before its Sync   active (ClientRead)       TCP
//	results that are read slowly                active (ClientWrite)      tcp_user_timeout, if nothing is read
//	more than 1 MiB is left unread              idle in transaction, or   the worker gives up after Silence
//	                                            active (ClientWrite)
//	it waits for a notification                 idle in transaction       heartbeats
//
// While a statement runs or a COPY FROM waits for its source, no timeout of the server's runs: a worker that is frozen
// there keeps its group until the statement ends, in COPY FROM until the worker goes on or dies.
//
// While more than that is left unread, each heartbeat after the first Heartbeat asks on the client's pool what the
// server does: a statement that still runs has time. If the pool has no connection to ask on, the worker gives up after
// Silence in any case.
//
// Each heartbeat looks at the socket, too: a session that was ended is noticed by the next one, also if rows are open.
// Where the server ends a session with more results on their way than sockets hold, only asking finds out, one
// Heartbeat later. Systems other than Linux do not notice it while something is unread, and those without recv(2), such
// as Windows, only by a heartbeat that can be sent. So does a connection that the pool's DialFunc wraps in something
// that is neither a syscall.Conn nor has a NetConn method.
//
// Behind a proxy or pooler the TCP settings watch the connection to the proxy. client_connection_check_interval needs
// a server on Linux, macOS, illumos or a BSD.
//
// # Batches
//
// A Queue with BatchJobs or BatchGroups has one transaction work several jobs: consecutive ones of one group, or one
// each of several groups. Its Handler is called for each of them, or its BatchHandler once for all. For small jobs that
// is many times faster, and every promise above holds, with two things to know. The batch's effects, and its
// completion, commit together, so they become visible together, and the groups wait until then. And after a crash, and
// after any error of a BatchHandler that is no BatchError, the whole batch is repeated. Effects outside the
// transaction, a mail say, may happen again for all of it. Do nothing for the jobs of a group behind its first failure:
// they run again.
//
//	worker.HandleQueue("clicks", fifo.Queue{
//		BatchJobs: 50,
//		BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error {
//			tx, err := jobs[0].PgxTx(ctx) // of any of them: it is the same
//			... // writes for jobs[:7] only, because what is written stays
//			return fifo.BatchError{jobs[7].ID: err} // those before it are done, those behind it run again
//		},
//	})
//
// # Long jobs
//
// By default a running job is an open transaction, on a connection of its own. A queue with Settings.SessionLease has
// another lease, by which a job that runs has neither:
//
//	default       |claim ======== transaction: handler, what it writes, completion ======== commit|
//	SessionLease  |claim, commit|            handler             |= job.Tx, completion, commit =|
//
// A worker has one session that holds the groups of all such jobs: its number is in the row of each group, and it has
// one advisory lock on that number. While it lives, nobody else claims these groups; when it dies, that lock is free,
// and any worker finds it so. Nothing else says that a worker lives, and nothing expires.
//
// So handlers may take hours without holding up vacuum, and thousands of them run at once on a few connections:
// Worker.SessionConcurrency says how many. What a job writes, and its completion, are still one transaction. It begins
// with the first call of Job.Tx, or of its like, on one of Concurrency connections that all these jobs share, and locks
// the group's row with the number of the claim in it. A claim that somebody else has made meanwhile has put another
// number there, so what a former holder writes cannot commit.
//
// What is promised above is promised of both leases. These things differ:
//
//   - If the session is lost, so are all jobs of its process. Their contexts end with ErrLost, an attempt of each
//     is counted, and others begin them again at once. With the default lease that is one job, or one batch.
//   - From Job.Tx on, a transaction is open and a connection is taken, as with the default lease: do the slow part
//     before. The call waits if all connections are taken. A handler that asks for no transaction needs none; such
//     jobs are completed many at a time.
//   - A claim and a completion are a commit each, where the default lease has one for both, together with the claim of
//     the next job.
//   - Job.Fence costs nothing: the token is the number of the claim.
//   - RunOne works a job of such a queue by the default lease.
//
// JobTimeout and DrainTimeout have the same defaults with both: set them to what the jobs take.
//
// A job that died with its worker twice, one time after the other, is suspected of having killed it. Then the session
// claims it when no other such job has begun in the worker in the last half second, or that one has ended. So a suspect
// that kills the worker costs no attempt of a suspect that has not begun. With the default lease a job is suspected
// after the first time, because fewer jobs die together there. But there the worker learns of a suspect by claiming it.
// If the worker dies in that moment, the attempt is counted.
//
// The page docs/leases.md of the module says when to take which, and how to change the lease of a queue that is in use.
//
// # Enqueue in SQL
//
// Triggers, psql and programs in other languages call a function of the schema, with the rights of a producer and in
// their own transaction. Its checks are those of Client.Enqueue, except that an empty dedup_id is an error: NULL means
// no deduplication. Its result is a Receipt: id, duplicate, replaced.
//
//	SELECT pgfifo.enqueue('mail', 'user-7', 'a text');
//	SELECT id, duplicate FROM pgfifo.enqueue('mail', NULL, 'a text', ungrouped => true, dedup_id => 'welcome-7');
//
//	-- in a trigger of PL/pgSQL, where a SELECT would need a place for its result
//	PERFORM pgfifo.enqueue('mail', 'user-7', to_jsonb(NEW), headers => '{"via": "trigger"}', delay => '1 hour');
//
// The payload is a text, a jsonb or a bytea; cast a json to one of them. A literal or a parameter without a type is a
// text, so write $3::bytea for bytes. The others are run_at, priority, max_attempts, replace, and commit_order, for
// Config.CommitOrder. In the SELECT list of a query it is called in the order of the ORDER BY, under three conditions:
// the ORDER BY does not use its result, the query has no DISTINCT or UNION, and the list has no function that returns
// sets, beside which it is called once more for each set. Behind FROM or LATERAL it is called in any order. Write no
// (pgfifo.enqueue(...)).*, which PostgreSQL calls once for each column. A value that is refused is an error of SQLSTATE
// class 22, a payload that is too large 54000, and a job that a trigger of yours keeps from being made 09000. Hooks are
// not called, and nobody is notified: workers find the job at their next look, after PollInterval at most.
//
// # Several tenants in one queue
//
// The groups of a queue have turns one after the other, so whoever has most groups gets most. A Queue's Share says to
// whom a group belongs. Then the shares have the lanes' time in equal parts, or as its Weights say, as far as they want
// it, and the groups of each have turns within that. A share that wants nothing for a while gets no more later. Each
// worker divides its own lanes, not all workers together. After its start a worker has surely found the groups of every
// share only when it has looked at all groups of the queue: some seconds for a million.
//
// # For operators
//
// Operators act on a Scope: a queue, or a group of it. It lists (Jobs, DeadLetters, Groups), counts (Measure,
// MeasureUpTo), stops the work and lets it go on (Pause, Resume), and moves or deletes (Bury, Redrive,
// DeleteDeadLetters, Purge): what is in that scope and nothing else. Letters says which dead letters: by their ids, by
// the kind or the text of their last failures, up to a number at a time; all only if it says All. A Client lists what
// is in all queues, and their names (Queues), and changes nothing there.
//
// Why and WhyJob answer the one question that is asked of a group or a job that stands still. RetryNow, Edit, Bury and
// Delete change one job, wherever it is in its group, or say that it is held (ErrJobHeld). Move puts what waits into
// another group or queue. None of them changes a running job, and none waits for one. Cancel ends what runs, by the
// handler's context, Terminate by force, and WaitEmpty waits until nothing is left.
//
// A handler pauses, redrives, deletes dead letters and configures on a pool, not in its job's transaction: others who
// do the same would wait until the job ends. With the roles of package migrations it needs a second Client for that, on
// the pool of an admin's login: a worker's may call Configure and Terminate, and gets 42501 for the others.
//
//	g := client.Queue("payments").Group("account-7")
//	was, jobs, err := g.Pause(ctx, "under audit")
//	back, _, err := g.Redrive(ctx, fifo.Redrive{Letters: fifo.Letters{Kind: fifo.KindTimeout, Limit: 100}})
//	was, err = g.Resume(ctx)
//	held, err := client.Groups(ctx, fifo.Page{}, fifo.Held)
//
// Settings are what all processes that use a queue must agree on. They are in the database, one row for each queue.
// Each process says with Configure, at its start, what they should be. If others are stored, it gets ErrConflict: it
// logs that and goes on, with what is stored. Configure and Reconfigure say which role may call them.
//
// Settings.Limit is how many jobs of the queue may run at once, over all processes. It is kept by row locks, so it is
// never exceeded, and nothing has to be repaired after a crash. A group whose turn it is waits for a slot in its place,
// and is charged with nothing. A worker that finds no free slot looks again after 25 to 50 ms, and at once when a job
// of its own has ended.
//
// Settings.GroupLimit lets several jobs of a group run at once, and start in order: one starts only when every job
// before it in its group runs or is gone. For work in order whose steps may overlap, calls of a slow service say. It
// gives up the order of effects: those of two jobs that run at once may interleave. Each attempt costs a second commit.
//
// # Whether it works
//
// Worker.Ready says whether a worker can find and take jobs, for a readiness probe; Worker.Stats has numbers, for
// gauges. The log tells of attempts that fail, of trouble with the database or a group, and of queues in which jobs
// wait and that the worker does not handle: see Config.Logger and Worker.SweepInterval. The page docs/production.md of
// the module says what to alert on.
//
// # Upgrades
//
// Migrate first, then replace the processes: those of the release before work on the newer schema, beside the new ones,
// and may be started again there. See migrations.
//
// # Tests of handlers
//
// A handler is a function of a Job, and &fifo.Job{Payload: ..., Attempts: 2} is one, whose Tx and Fence return
// ErrNoJob. What it decides can be tested with that: AsRetryAfter, IsDeadLetter and the like tell what its error says.
// With a database, give each test a schema (Config.Schema, migrations.Config), enqueue, and call Worker.RunOne until it
// returns false. It works one job, also of a queue with batches, and passes over jobs that wait for their time:
// RetryNow makes one due, and Backoff(0, 0) is a Retry without waits. Test batches with Run, and end its context when
// WaitEmpty returns.
//
// For a server, run the tests by
//
//	go run github.com/pgfifo/pgfifo/internal/pgserver/cmd/withserver@VERSION go test ./...
//
// with the version of this module that yours requires. It gets a server as this module's tests do, and sets
// DATABASE_URL. (Without the version your go.mod would have to have what the server needs.)
//
// # What it costs
//
// A commit waits for the disk, once for each job or batch: a group that is always busy does as many a second as the
// disk flushes. With Queue.Relaxed the completions of a queue do not wait: a crash of the server then undoes the last
// of them, each together with what its handler wrote, and those jobs run again, in order.
//
// Each running job has a connection, apart from the pool of the application, and an open transaction: a handler that
// takes an hour is a transaction that takes an hour, and keeps vacuum from cleaning up behind everybody for that long.
// Keep handlers short, or give their queue the lease for long jobs, above.
package fifo
