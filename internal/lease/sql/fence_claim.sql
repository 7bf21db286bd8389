-- Returns the transaction of this connection, if it is the one that claimed the group ($1 queue, $2 group id).
--
-- The claim's lock is its xmax. A handler that ended the transaction and began one of its own gets no row.
SELECT pg_current_xact_id()::text
FROM pgfifo.queue_groups g
WHERE g.queue = $1 AND g.group_id = $2 AND g.xmax = pg_current_xact_id()::xid
