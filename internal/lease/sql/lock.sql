-- Locks a group's row, or returns nothing: somebody else holds it, by the row's lock or as a session (keep_claim.sql),
-- or there is no such row. It waits for nobody; but see keep_lock.sql.
--
-- $1 queue, $2 group id.
--
-- The lock is the lease. It is held until the transaction ends. Run it in READ COMMITTED, and look at the group's jobs
-- in the statement after it (claim.sql, claim_batch.sql): that has a snapshot of its own, which is newer than the lock.
--
-- A row that has got a session since this statement began is locked, and not returned (PostgreSQL looks again at what
-- it has locked). Then there is no claim, whatever claim.sql finds: the lane looks at the answer to this statement,
-- too.
--
-- group_xid is the transaction that locked the row before: see evidence.sql. own_xid is this one. It is asked for above
-- the lock, so it is there only if a row is locked: claim.sql does nothing if the transaction has no id.
SELECT g.group_xid, pg_current_xact_id()::xid AS own_xid
FROM (SELECT g.xmax AS group_xid
      FROM pgfifo.queue_groups g
      WHERE g.queue = $1 AND g.group_id = $2 AND g.session IS NULL
      FOR NO KEY UPDATE SKIP LOCKED) g
