-- Ends the session that has the head of a group locked, and those that run other jobs of it, and tells whether it has.
--
-- $1 queue, $2 group id. See groups.sql for what says who that is, and lock_group_slot.sql for the others: each has one
-- of the group's slots.
--
-- If a session has the group without a lock (kept.sql), a lane of the worker may have the group's row locked: that is
-- ended. The session itself, which has many other groups, is not, even if it is just about to claim the head, or lets
-- the group go: it has the lock of a number that some group has. take.sql takes the group from it.
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
      AND pgfifo.lives(g.session)
)
SELECT coalesce(pg_catalog.bool_or(pg_catalog.pg_terminate_backend(holder.pid)), false) AS ended
FROM (SELECT a.pid
      FROM lockers l
      JOIN pg_stat_activity a ON a.backend_xid = l.xid
      WHERE a.pid <> pg_backend_pid()
        AND NOT EXISTS (SELECT
                        FROM pgfifo.keepers k
                        JOIN pgfifo.queue_groups g ON g.session = k.session
                        WHERE k.pid = a.pid
                        OFFSET 0)
      OFFSET 0) holder
