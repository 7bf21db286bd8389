-- Locks a group's row to record what became of a job whose claim is lost while its worker lives. One row.
--
-- $1 queue, $2 group id; milliseconds: $3 how long to wait for whoever has the row, the session that was lost perhaps,
-- $4 how long the server may wait for us then. One that freezes here, or is cut off, must not keep the group for longer
-- than a lane would. Nothing is left of both settings when the transaction ends.
--
-- The lock is that of lock.sql. It keeps claims away until the record is committed, and when it is freed by that commit
-- the row no longer bears the transaction that was lost, so that one is no evidence of a crash (evidence.sql).
SELECT g.xmax
FROM pg_catalog.set_config('lock_timeout', $3::text, true) AS l,
     pg_catalog.set_config('idle_in_transaction_session_timeout', $4::text, true) AS i,
     pgfifo.queue_groups g
WHERE g.queue = $1 AND g.group_id = $2
FOR NO KEY UPDATE OF g
