// Package lease is how a worker holds message groups. It locks a group, looks at its head, lends the transaction to the
// handler, keeps it alive, settles the job and lets the group go. It does not know which group is next (package
// schedule), nor what a job means (package fifo).
//
// There are two leases. A Lane is one connection, and its open transaction is the lease. A Keeper has one session that
// is the lease of all groups of a process, and a Borrower works one of them at a time.
//
// Where what is:
//
//   - What is asked for and held: request.go, hold.go.
//   - A Lane, and its step: lane.go, step.go, claim.go, slot.go; what goes over its connection: pipeline.go,
//     statements.go, sql.go, refused.go, and the files in sql.
//   - The transaction as a handler has it: loan.go, nest.go, savepoint.go, nested_pgx.go, nested_bun.go, fence.go; what
//     a handler does to the session: spoil.go, restore.go, failed.go.
//   - What is known of a death: mark.go, record.go, cover.go.
//   - The lease of a session: keeper.go, session.go, round.go; who works its groups: borrower.go, borrower_lane.go,
//     take.go, lanes.go, settlement.go, slow.go.
//   - Connections: dialer.go, connection.go, link.go, pooled.go, planner.go; their silence: bounds.go, heartbeat.go,
//     stranded.go, the socket files. A wire sees each statement that is made with pgx (wire.go), a stream each message
//     of the protocol (stream.go, frames.go); canceller.go ends a statement.
//
// # The transaction is the lease
//
// A lane holds one open transaction per job. In it PostgreSQL holds two row locks: on the group's row in
// queue_groups, and on the job's row in jobs. (A batch of several groups has two for each.) While it is open nobody
// else can run that group; when it ends, by commit, rollback or a dead connection, both are free at once. Nothing is
// written to say "running", so there is nothing to repair after a crash, and no visibility timeout to choose: a job
// is invisible for exactly as long as its transaction is open.
//
//	             Request                       Hold                            Calls, the next Request
//	  a seat  ------------>  lane  ---------------------->  a seat: handler  ---------------------->  lane  ...
//	                          |                                |                                       |
//	            one pipeline: |                   savepoint,   |                         one pipeline: |
//	            lock.sql      | group's row       the handler's|                         settle        | DELETE job
//	            claim.sql     | head's row        statements   |                         COMMIT AND    | free, and
//	                          |                                |                         CHAIN, claim  | the next held
//	PostgreSQL  ...idle.......[== two row locks, one transaction =====================================][=====...
//
// The seat is package fifo's: its loop takes a Turn from package schedule, steps with the Turn's Request, and calls the
// handler.
//
// Whatever else can be known of a running job is read off that transaction:
//
//   - It is running if its row's xmax is a transaction in progress; pg_stat_activity knows the pid, name, address and
//     start of that transaction (the Status of package fifo).
//   - Its last worker died with it if the row's xmax, read just before it is locked again, is that of an aborted
//     transaction, and the group's row has the same, or that of a later one that has aborted (sql/evidence.sql). A
//     claim locks both; nobody else does. A worker that gives a job back unworked commits.
//
// # Why groups stay in order
//
//   - Lock, then look. Whoever asks for a group knows of it by hints (package schedule). A claim is two statements of
//     one round trip. The first locks the group's row by its primary key (sql/lock.sql), and nothing else. The second
//     is a new statement, so it has a new snapshot; it reads the head, the lowest id of the group, and locks it
//     (sql/claim.sql). Whoever held the group before had ended when its row was locked, so the second statement sees
//     all that they did, and every lower id that was committed before. Nobody else can have worked a lower id that is
//     committed later, because the group is ours. (One statement for both does not work. It has one snapshot, which is
//     older than the lock: a lower id that was committed and tried in between is overtaken.)
//   - The second statement runs also when the first has found nothing, because both are sent at once. So it is gated:
//     it does nothing unless the transaction has an id, which only the lock can have given it.
//   - The head is never filtered. Readiness (delay, backoff, pause) is looked at after it is chosen, and a head that
//     is not ready holds its group.
//   - A claim that misses ends its transaction with the next statement, and with COMMIT, so that it leaves no
//     evidence of a crash. A transaction that runs one job holds two row locks.
//   - Locks are FOR NO KEY UPDATE, and nothing touches a group's row but its holder, Collect, what frees the groups of
//     a dead session, and an operator's verb that takes a group from a session (take_from_session of the schema): not
//     producers, not Pause. Nor may you: a FOR KEY SHARE, as foreign keys take it, stops no claim, but hides the
//     evidence of a crash. On a job's row it also hides who has the job. Workers warn of such keys.
//   - READ COMMITTED is said at BEGIN, whatever the database's default is.
//   - The handler's writes are inside a savepoint, made when it first asks for the transaction: an error in one of
//     its statements neither frees the locks nor keeps the failure from being recorded.
//   - Settling depends on nothing that the handler has left behind (restore.go). It first puts back who the session
//     is (authorization and role), the encoding, the search path, timeouts, session_replication_role and the planner's
//     settings, and fails if the transaction is not the one that claimed: a handler that ends it by hand cannot make
//     an unheld job succeed. A job whose row is still there after its DELETE is not committed, nor is what its handler
//     wrote.
//   - Ids come from a sequence with CACHE 1, inside the enqueue: of two enqueues of which one returned before the other
//     began, the first is worked first. Overlapping ones may commit the other way round; a lower id that appears late
//     is worked next: no floor of package schedule hides ids that may still be committed.
//
// # How a crash is counted
//
// The evidence of sql/evidence.sql costs nothing. Some things can hide it, and then a lost attempt is not counted:
//
//   - VACUUM takes the ids of aborted transactions off the rows: always with FREEZE, and from PostgreSQL 16 on now
//     and then without. It has to come between the death and the next claim.
//   - The server crashes, or a standby takes its place, before the record of the locks is on the disk that survives.
//   - A claim had read the group's row, and not locked it yet, while the whole attempt came and went.
//   - Between the death and the claim that would count it, another claim has locked the group, but not the job, and
//     was committed: an operator had the job locked, or a lower id was committed and became the head.
//   - Between them the server refused a claim that had locked the job's row and not told of it yet: another group of
//     that claim was refused, say. For every other refused claim, cover.go looks for a death that it would hide.
//   - The handler, or somebody with FOR KEY SHARE, has touched the rows of its own group or job.
//   - An operator has changed the job between them: Edit or RetryNow.
//
// So the attempts that matter are marked durably as well (mark.go), on a connection of the Control pool, before their
// handlers run: the first ten of each lane after the start of its worker, and all of jobs that have failed or were lost
// before. A mark is taken back in the transaction that settles the attempt. A mark that is found when the group is ours
// is that of an attempt that died. Hence a job that kills its worker at each start is counted each time, and so is
// every death of a job after the first that is counted. If a mark cannot be made, that is logged, and the locks are the
// only evidence.
//
// The locks tell of a claim, and not of a handler that has begun. So an attempt is also counted if the session ends
// between the two. That is a millisecond. It is longer while a mark waits: up to a second for a connection of the
// Control pool, and up to Silence for the server's answer. A slow hook may add 50 ms, and so may a look at a batch that
// waits (behind.go). A claim that would wait longer is given back. A pause that comes while a mark is made is seen by
// paused.sql. And one attempt may be counted that never was: an operator has the job locked, a claim has the group
// locked and not yet the job, the claim's session ends, and the operator rolls back.
//
// An attempt that fails while its worker lives is no crash. If its transaction is lost, because the handler ended it
// or its COMMIT was refused, the failure is recorded on a connection of the Control pool (record.go), unless another
// worker has counted it by then. If that is refused as well, or takes long because somebody keeps the job open, the
// group is left alone for a while, longer each time (Outcome.Trouble): no other group waits with it. The attempt is
// marked then, so the next claim of its job counts it as lost. In a batch that is the failed job, not the head. If the
// mark of a job behind the head is refused as well, its attempt is not counted: the evidence would charge the head.
//
// A refused COMMIT frees its groups before anything can be recorded, so another worker may find them first and charge
// their heads. For one head that is its own failure. For the heads of several groups it is not, so a batch whose
// handlers write is in a savepoint, and before COMMIT its deferred constraints are checked and its cursors closed
// (savepoint.go). If that fails, the writes are undone, the transaction commits without them, and the jobs run again
// one by one. What else COMMIT refuses is not known before: a handler's NOTIFY if the queue of notices is full, a
// temporary table ON COMMIT DELETE ROWS to which another one refers, an extension (postgres_fdw, whose servers commit
// then). Then the heads of such a batch may be charged.
//
// # Batches
//
// A transaction may take more than one job (Batch). With one group, it locks the group's row and the head as ever, and
// reads the jobs behind it with the same snapshot (sql/claim_batch.sql). They need no locks of their own: the group is
// ours. If an operator deletes one of them meanwhile, settling the batch fails, and it runs again. If he keeps that
// open, the batch waits a second for him. Then another session ends its statement (behind.go). A batch that waits for
// nobody pays nothing for this. The payloads of a batch have 16 MiB together at most. Only the head bears evidence of a
// crash, is charged with the lost attempt, and runs alone from then on, as every job does that has failed. If a lower
// id has become the head since that crash, the batch that begins with it ends before the job that bears the mark.
//
// With several groups, all are locked in one statement (sql/lock_many.sql) and looked at in the next
// (sql/claim_many.sql). If one that is locked has no job, or one that is to run alone, the claim is given up and made
// again without it: no group stays locked that is not worked. Their payloads have 16 MiB together at most, too: a head
// whose payload is beyond that is claimed by itself.
//
// # Limits
//
// A queue that may run only n jobs at once has n rows in slots, and a claim of it (Request.Slot) locks one of them for
// as long as its transaction is open (sql/lock_slot.sql). Nothing is counted, so nothing can be counted wrong, and a
// dead worker's slot is free when its transaction is. A batch has one slot.
//
//   - No claim gets round it. The queue has a row in pauses that a claim without a slot takes for a pause, whoever
//     makes it, and one with a slot does not (slot.go). A queue without a limit has neither, and its claims are what
//     they were.
//   - The slot is locked first, in the statement that locks the group: a claim that finds none touches no group, and
//     covers no evidence of a crash. Slots bear none: that is the groups' and jobs'.
//   - Then the transaction has an id without a group, so the look is gated on the group's row, as that of several
//     groups is. (FOR KEY SHARE on it, which others should not take anyway, makes such a claim miss.)
//
// A group of which several jobs may run at once (Request.GroupSlot) has as many rows in group_slots, and a claim locks
// one of them in place of the group's own row (sql/lock_group_slot.sql). That says how many run. In which order they
// start is another argument, because the lock of a group is not one claim's any more:
//
//   - A job has started when its attempt is marked (mark.go), durably, and the mark names the claim's transaction. It
//     runs for as long as that transaction has its row locked. Nothing else is passed over: not what an operator has
//     locked, and not what a claim has only locked to look at, because it may find that the job is not due, is paused,
//     or was lost.
//   - Lock, then look, once more. A claim locks the first job that does not run (sql/lock_next.sql). The next
//     statement, with a newer snapshot, looks for the first job that does not run, and it must be the one that is
//     locked (sql/claim_group_slot.sql). So there is one moment, that of the snapshot, at which every job before it was
//     running, each started before, and this one was ours. If one before it has failed since the lock, or a lower id
//     was committed, or the limit is so low by now that the slot does not count, the claim misses.
//   - Marks are also the evidence of a crash, of every attempt. The job's row is locked while its attempt lives, so
//     whoever has it locked and finds a mark of the next attempt has found one that died. What locks leave behind is
//     not looked at: the next claim of the job may have another slot. If a mark cannot be made, that is logged, the
//     job is given back, and its group rests for a while.
//   - A claim of another kind starts nothing there: the queue's row in pauses stops one without a slot, and
//     lock_slot.sql finds none. What they had begun before the queue had its limit is not marked with a transaction,
//     so it is not passed over, with all of its batch. A queue that has had such a limit keeps one, of 1 at least.
//
// # The lease of a session
//
// A transaction for each job is the right lease for short ones. A queue of long ones may have another (Settings of
// package fifo), by which a job runs without a transaction and without a connection: keeper.go.
//
//	             Request                       Hold                           Calls
//	  a seat  ------------> Borrower ----------------------> a seat: handler -------------------> Borrower ...
//	                           |                               |                                     |
//	            one round for  |                  if it asks   |                  together with      |
//	            all who ask:   |                  for job.Tx,  |                  others, or on      |
//	            keep_lock.sql  | group's row      a lane:      | both rows        a lane:            | DELETE job
//	            keep_claim.sql | session, token   keep_take.sql| locked           keep_done.sql      | session = NULL
//	PostgreSQL  ............[commit]....the group's row names the session, nothing is locked.....[commit]....
//
// A worker process has one session that holds its groups, which has an advisory lock on a number that is drawn anew for
// each session. A group's row bears that number for as long as one of its jobs runs. So the row says whether a session
// has the group, and the lock says whether that session lives: pg_try_advisory_xact_lock_shared gets the lock only if
// it is dead. A dead session stays dead, because its number never comes again. So the answer that it lives may be wrong
// when it arrives; the answer that it is dead never is.
//
//   - One holder. A claim of either lease locks the group's row, and only a row that names no session. If it has waited
//     for another transaction, PostgreSQL looks again at the row that it locks.
//   - Order. The head is read by a statement after that lock, as ever. Whoever had the group before has committed or
//     rolled back, or cannot commit any more.
//   - No effect of a former holder's. All that a job commits is in a transaction that has locked the group's row with
//     the token of its claim in it (keep_take.sql), before anything else. Each claim writes a higher token. So a later
//     claim has either committed before that lock, and then the token is another one and the lock finds nothing; or it
//     waits until that transaction has ended. The token is in the row that is locked, because PostgreSQL looks at the
//     conditions on that row alone again after a wait. A dump that is restored under a worker takes tokens back. So the
//     row must name the claim's session, too.
//   - Jobs behind the head of a batch are not locked, and no transaction keeps their former rows. So the transaction
//     that settles them, once it has an id, asks whether each is the row that was read (keep_same.sql): another row may
//     have its place by now.
//   - A death is counted. The row says which attempt it is of. The scout of any worker that finds a dead session's
//     group turns that into a mark (reclaim.sql of package schedule), and frees the group. Whoever claims the job next
//     finds the mark. Nothing is inferred from what transactions have left behind.
//   - A death charges all that is claimed. So a job with which the last two workers died is claimed only if the Request
//     says so; else the claim tells of it and writes nothing. Package schedule has one of them claimed at a time.
//   - An end that is not known, because the connection broke in the middle of it, is a death of that attempt: the row
//     is given the number of nobody (Forfeit). If it was committed all the same, the row names no session any more.
//   - Nothing but its row tells that a group was let go, so the scouts of other workers look at the rows of what
//     sessions have (released.sql of package schedule).
//   - Two lanes settle what handlers have no lane for, many jobs at once: one completes what is done, the other does
//     all else. A transaction of theirs has a second. If it took longer, or was refused, each of its jobs is settled by
//     itself, on that lane or a free one of the handlers'. If it took a tenth of a second more than usual, a few of its
//     groups are settled by themselves the next time, to find which are slow: slow.go. A group that takes longer than a
//     second then has one of the handlers' lanes from there on.
//   - A round has 16 MiB of payloads at most, beside its first claim. Claims that are beyond that are made in the next
//     one. What the server refuses of a round is made by itself, and so is each release that it refuses.
//   - Silence. The session has a pulse of its own, the bounds of a lane, and idle_session_timeout in place of that for
//     transactions. A round may take longer than Silence while something comes. If the session is lost, the contexts of
//     all its handlers end with ErrLost.
//   - Batches, limits and marks are as above: of a batch of one group the head is the session's, and the lane that
//     settles it has the same rows locked; a slot bears the session's number.
//
// An operator's statement that finds no lock on a running job's row locks it, and then asks whether a session runs the
// job, with a new snapshot (held_by_sessions of the schema): a claim locks that row, too. So it came before, and is
// seen, or it misses.
//
// # What a claim costs
//
// On the machine of the README, a job that does nothing takes about 100 microseconds of processor time, four fifths
// of it the server's. A commit with one changed row, in one round trip, takes 50 there, so that is the floor. Hence:
//
//   - One round trip a job: settling it, COMMIT AND CHAIN and the next claim are one pipeline of prepared statements.
//   - Whether jobs wait behind the head is counted once for 16 of them (sql/ahead.sql).
//   - The claim finds the head by one descent of the index, and names it by its ctid from there on: in the lock, and
//     in the DELETE that ends it, unless the handler has taken the transaction and may have moved the row.
//   - Plans are pinned to index probes (plannerSettings). A table that is empty at one moment and has a million rows at
//     the next has no statistics worth the name. For the same reason look-ups are scalar sub-selects, or have a lock of
//     their own: as a join, claim_many.sql would read all groups of the queue for each group of the batch.
//   - The jobs table holds live jobs only, and a lane does not look below what it has finished (a floor): dead
//     entries that an old snapshot keeps are not walked over.
package lease
