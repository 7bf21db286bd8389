-- Ends the session that has the head of a group locked, and those that run other jobs of it: one row for each.
--
-- $1 queue, $2 group id. See groups.sql for what says who that is, and lock_shared.sql for the others: each has one of
-- the group's slots.
SELECT pg_catalog.pg_terminate_backend(a.pid) AS ended
FROM (SELECT j.xmax AS xid
      FROM pgfifo.jobs j
      WHERE j.queue = $1 AND j.group_id = $2
      ORDER BY j.queue, j.group_id, j.id
      LIMIT 1) head
FULL JOIN (SELECT s.xmax AS xid FROM pgfifo.group_slots s WHERE s.queue = $1 AND s.group_id = $2) slot
     ON slot.xid = head.xid
JOIN pg_stat_activity a ON a.backend_xid = coalesce(head.xid, slot.xid)
WHERE a.pid <> pg_backend_pid()
