-- Locks a group's row to record what became of a job whose claim is lost while its worker lives. One row, or none if
-- somebody else has claimed the group since, and holds it or has died with it: they have seen what was lost here, and
-- what they leave is evidence of a crash.
--
-- $1 queue, $2 group id; milliseconds: $3 how long to wait for the session that was lost, $4 how long the server may
-- wait for us then. One that freezes here, or is cut off, must not keep the group for longer than a lane would. Nothing
-- is left of both settings when the transaction ends. $5 the transaction that was lost; NULL: not known, and whoever had
-- the group last is covered.
--
-- The lock is that of lock.sql. It keeps claims away until the record is committed, and when it is freed by that commit
-- the row no longer bears the transaction that was lost, so that one is no evidence of a crash (evidence.sql).
SELECT g.xmax
FROM pg_catalog.set_config('lock_timeout', $3::text, true) AS l,
     pg_catalog.set_config('idle_in_transaction_session_timeout', $4::text, true) AS i,
     pgfifo.queue_groups g
WHERE g.queue = $1 AND g.group_id = $2
  AND ($5::xid8 IS NULL OR g.xmax = $5::xid8::xid
       OR coalesce((SELECT pg_xact_status(w.xid::text::xid8)
                    FROM (SELECT n.next, n.next - ((n.next - g.xmax::text::bigint) & 4294967295) AS xid
                          FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n) w
                    WHERE w.xid >= 3 AND w.xid < w.next), 'committed') = 'committed')
FOR NO KEY UPDATE OF g
