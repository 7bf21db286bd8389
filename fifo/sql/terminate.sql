-- Ends the session that has the head of a group locked, and those that run other jobs of it: one row for each. kept
-- says that a session has the group without a lock.
--
-- $1 queue, $2 group id. See groups.sql for what says who that is, and lock_group_slot.sql for the others: each has one
-- of the group's slots.
--
-- With kept (internal/lease/keeper.go), a lane of the worker may have the group's row locked: that is ended. The
-- session itself, which has many other groups, is not, even if it is just about to claim the head, or lets the group
-- go: it has the lock of a number that some group has. take.sql takes the group from it.
WITH lockers AS (
    (SELECT j.xmax AS xid
     FROM pgfifo.jobs j
     WHERE j.queue = $1 AND j.group_id = $2
     ORDER BY j.queue, j.group_id, j.id
     LIMIT 1)
    UNION
    SELECT s.xmax FROM pgfifo.group_slots s WHERE s.queue = $1 AND s.group_id = $2
    UNION
    SELECT g.xmax FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2
      AND NOT pg_try_advisory_xact_lock_shared(g.session)
)
SELECT pg_catalog.pg_terminate_backend(holder.pid) AS ended, false AS kept
FROM (SELECT a.pid
      FROM lockers l
      JOIN pg_stat_activity a ON a.backend_xid = l.xid
      WHERE a.pid <> pg_backend_pid()
        AND NOT EXISTS (SELECT
                        FROM pg_locks k
                        JOIN pgfifo.queue_groups g
                             ON g.session = (k.classid::bigint << 32) | k.objid::bigint
                        WHERE k.pid = a.pid AND k.locktype = 'advisory' AND k.objsubid = 1 AND k.granted
                          AND k.mode = 'ExclusiveLock'
                        OFFSET 0)
      OFFSET 0) holder
UNION ALL
SELECT false, true FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2 AND g.session IS NOT NULL
