// Package groups decides whose turn it is: it finds message groups with work, claims one for a lane, and holds it for
// as long as the lane's transaction is open. What happens in that turn is the business of package fifo, which most
// programs use instead; what they need from here are Key, Session and Admin.
//
// # The transaction is the lease
//
// A lane holds one open transaction per job. In it PostgreSQL holds two row locks: on the group's row in queue_groups,
// and on the job's row in jobs. (A batch has more: see below.) While it is open nobody else can run that group; when it
// ends, by commit, rollback or a dead connection, both are free at once. Nothing is written to say "running", so there is
// nothing to repair after a crash, and no visibility timeout to choose: a job is invisible for exactly as long as its
// transaction is open. Whatever else can be known of a running job is read off that transaction:
//
//   - It is running if its row's xmax is a transaction in progress; pg_stat_activity knows the pid, name, address and
//     start of that transaction (Admin.List).
//   - Its last worker died with it if the row's xmax, read just before it is locked again, is that of an aborted
//     transaction (sql/evidence.sql). A worker that gives a job back unworked commits the empty transaction.
//
// One thing is not seen: a claim that is kept from running, between reading its group's row and locking it, for as long as
// another worker's whole attempt takes from claim to death, does not know of that attempt, and it is not counted. Or it is one of
// a lower id, which was committed since the claim's snapshot, and the claim's own job runs before that is tried again; so it
// does if the attempt was given back unrecorded, as those of a batch that is undone are. The two are one after the other in the
// executor, so it takes a starved server, an attempt of milliseconds, and bad luck. An attempt that failed, and was told to the
// database, cannot hide like that: see below.
//
// # Why groups stay in order
//
//   - Claim = hint, then group, then head. Candidates are read without locks (sql/candidates.sql) and may be stale. The
//     claim (sql/claim.sql) names one group by its primary key, and as its job the lowest id of that group, exactly.
//     Whoever had the group's row ended before it could be locked again, so the head that is locked with it is still the
//     head, or it is gone and the claim misses. Only a lower id that was committed since the claim's snapshot is not seen,
//     and if somebody has worked that one meanwhile it must not be overtaken: the group's xmax, read just before its row is
//     locked, tells that somebody was there, and then the claim is made again. Between these two there is a moment yet; whoever
//     fails with a job for the first time writes a new version of the group's row for its sake, and the lock meets that. (The obvious statement, jobs joined to groups
//     ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED, breaks the order without any fault: it locks a job, fails to lock the
//     group, moves on, and keeps the job locked, so that the next claim of that group passes it over.)
//   - The head is never filtered. Readiness (delay, backoff, pause) is looked at after it is chosen, and a head that is
//     not ready holds its group.
//   - A claim that misses ends its transaction with the next statement: rows that were locked but not returned stay
//     locked as long as it is open. It ends it with COMMIT, so that it leaves no false evidence of a crash.
//   - Locks are FOR NO KEY UPDATE, and nothing but its holder and Collect touches a group's row: not producers, not Pause.
//     Nor may you: a FOR KEY SHARE, as foreign keys take it, stops no claim, but makes the row's xmax say nothing.
//   - READ COMMITTED is said at BEGIN, whatever the database's default is.
//   - The handler's writes are inside a savepoint: an error in one of its statements neither frees the locks nor keeps
//     the failure from being recorded. The savepoint is made when the handler first asks for the transaction. Its
//     release fails if the transaction is not the one that claimed, so a handler that ends it by hand cannot make an
//     unheld job succeed.
//   - Ids come from a sequence with CACHE 1, inside the enqueue: of two enqueues of which one returned before the other
//     began, the first is worked first. Overlapping ones may commit the other way round; a lower id that appears late is
//     worked next: no claim looks only behind an id that an open transaction may still commit below (see floors in floor.go).
//
// # Batches
//
// A transaction may take more than one job (Batch). Of one group, it locks the group's row and the head as ever, and takes
// the jobs behind it from the same snapshot (sql/claim_batch.sql): if somebody has worked the group since, the head is
// gone, or has a newer version, or what they left behind it shows in the rows as they are after the lock. They need no
// locks of their own, and bear no evidence of a crash: the head does, is charged with the lost attempt, and runs alone from
// then on, as every job does that has failed. Of several groups, each is claimed under the argument above, in one statement
// (sql/claim_many.sql). If one of them cannot be had, or somebody else may have had it since the snapshot, the claim is given up and made
// again: a row may be locked although nobody works it.
//
// # What a claim costs
//
// On the machine of the README, a job that does nothing takes 100 microseconds of processor time, four fifths of it the
// server's. A commit with one changed row, in one round trip, takes 50 there, so that is the floor; half of what comes on top
// is the executor setting up the claim. Hence:
//
//   - One round trip a job: settling it, COMMIT AND CHAIN and the next claim are one pipeline of prepared statements.
//   - The claim finds the head by one descent of the index, and names it by its ctid from there on: in the lock, and in the
//     DELETE that ends it. A descent each was 9 microseconds more.
//   - It does not ask what the worker knows. Whether jobs wait behind the head is counted for 16 jobs at a time; whether
//     anything in the queue is paused, one lane asks for all, every 10 milliseconds, and the answer is trusted for 20.
//     Asking both each time was 13 more. Pause makes up for it by returning a little later.
//   - Plans are pinned to index probes (plannerSettings). A table that is empty at one moment and has a million rows at the
//     next has no statistics worth the name. The same is why look-ups are scalar sub-selects, or have a lock of their own:
//     as a join, claim_many.sql read all groups of the queue for each group of the batch.
//   - The jobs table holds live jobs only, and a lane does not look below what it has finished (floor.go): dead entries that
//     an old snapshot keeps are not walked over. Only a walk over all groups meets them, for the sake of jobs that are put back
//     with old ids; where that makes walks slow they take a twentieth of the time (a fifth, where groups are too many for
//     quick ones, and half while somebody asks for them), and quick ones, which look between the groups that are known
//     (gaps.go), find new groups and late jobs between their statements.
//
// Tried, and not kept: deleting the job with the claim instead of locking it, so that success is a mere COMMIT. It costs
// as much as lock and DELETE by ctid do together, a claim can wait for an operator's lock, and a handler that runs COMMIT by
// hand would lose its job.
//
// # What bounds silence
//
// A lane makes these settings on its own session (Session; any role may), and this is what they give:
//
//	what happens to the worker                        its group is free after        by
//	killed, or its connection closed                  milliseconds                   the end of the session
//	killed in the middle of a statement               1 s                            client_connection_check_interval
//	frozen (SIGSTOP, a suspended machine)             ServerSilence, 30 s            idle_in_transaction_session_timeout
//	the same in the middle of a statement             the end of the statement, and  the same
//	                                                  ServerSilence
//	cut off, or its machine gone                      5/6 of ServerSilence, 25 s     tcp_keepalives_*; with a server on Linux
//	                                                                                 2/3, 20 s, by tcp_user_timeout
//	cut off with a reply on its way                   2/3 of ServerSilence, 20 s     tcp_user_timeout
//
//	what the handler learns, by its context           after at most
//	its session was ended or the server restarted     Heartbeat, 1 s, when the connection is idle; at once in a statement
//	the server is silent                              Heartbeat + Silence, 11 s; in a statement, by TCP: 11.3 s (see Session)
//
// In a statement, nothing but the socket watches: if that stays in order while no answer comes (a frozen server process, a
// pooler or proxy that lost the other side), the handler waits in its statement for as long as its own context lets it.
//
// Session.Validate sees to it that the second table is shorter than the first wherever both ends live: a handler is told
// before anybody else is given its group. It cannot be when the session is ended from the server's side, or when the worker
// itself is frozen. What a handler writes through the job's transaction is safe in any case: it cannot commit any more.
//
// For effects outside the database in those cases, the handler asks for a fencing token (Loan.Fence, sql/fence.sql) and
// sends it along; the other system refuses a lower one than it has seen. Tokens of a group grow with each claim that asks.
// They are drawn by a statement of its own, on another connection, so that they are durable before they are used; it looks
// whether the claim's transaction is still open when it has the lock of the group's row in pgfifo.fences, and a later claim
// cannot draw before that lock is free. So a former holder gets a lower token than its successor, or none.
//
// Behind a proxy or pooler the TCP settings watch the connection to the proxy. client_connection_check_interval needs a
// server on Linux, macOS, illumos or a BSD. A handler that keeps rows open (pgx.Rows, sql.Rows) without reading them for
// longer than ServerSilence looks frozen: no heartbeat can pass.
package groups
