-- Undoes the pause of a group, or of a queue, and of nothing else. No row: it was not paused.
--
-- $1 queue, $2 group id ('': the queue). xid is the transaction's id.
DELETE FROM pgfifo.pauses
WHERE queue = $1 AND group_id = $2
RETURNING pg_current_xact_id()::text::bigint AS xid
