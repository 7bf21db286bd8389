-- Locks a group's row, or returns nothing: somebody else holds it, or there is no such row. It never waits.
--
-- $1 queue, $2 group id.
--
-- The lock is the lease. It is held until the transaction ends. Run it in READ COMMITTED, and look at the group's jobs
-- in the statement behind it (claim.sql, claim_batch.sql): that has a snapshot of its own, which is newer than the
-- lock.
--
-- group_xid is the transaction that locked the row before: see evidence.sql.
SELECT g.xmax AS group_xid
FROM pgfifo.queue_groups g
WHERE g.queue = $1 AND g.group_id = $2
FOR NO KEY UPDATE SKIP LOCKED
