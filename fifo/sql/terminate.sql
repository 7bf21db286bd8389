-- Ends the session that has the head of a group locked: one row, or none if nobody has.
--
-- $1 queue, $2 group id. See groups.sql for what says who that is.
SELECT pg_catalog.pg_terminate_backend(a.pid) AS ended
FROM (SELECT j.xmax AS xid
      FROM pgfifo.jobs j
      WHERE j.queue = $1 AND j.group_id = $2
      ORDER BY j.queue, j.group_id, j.id
      LIMIT 1) head
JOIN pg_stat_activity a ON head.xid <> '0'::xid AND a.backend_xid = head.xid
WHERE a.pid <> pg_backend_pid()
