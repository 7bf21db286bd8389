-- Tells whether a session has a group, without a lock: a row.
--
-- $1 queue, $2 group id.
SELECT true FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2 AND g.session IS NOT NULL
