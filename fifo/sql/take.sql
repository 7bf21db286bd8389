-- Takes a group from the session that has it without a lock, if one does: the transaction's id, or no row.
--
-- $1 queue, $2 group id.
SELECT pg_current_xact_id()::text::bigint AS xid
FROM (SELECT pgfifo.take_from_session($1, $2) AS taken OFFSET 0) t
WHERE t.taken
