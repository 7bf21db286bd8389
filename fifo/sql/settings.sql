-- Returns the settings of a queue. No row: it has the defaults.
--
-- $1 queue.
SELECT dedup_window, dedup_by_group, dead_letter_retention, max_running, greatest(group_limit, 1),
       coalesce(session_lease, false)
FROM pgfifo.queues
WHERE queue = $1
