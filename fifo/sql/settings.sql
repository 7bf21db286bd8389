-- Returns the settings of a queue, and whether it has or had a limit of groups above 1, or a lease other than the
-- default. No row: it has the defaults.
--
-- $1 queue.
SELECT dedup_window, dedup_by_group, dead_letter_retention, max_running, greatest(group_limit, 1),
       coalesce(lease, 'transaction'), group_limit > 0, lease IS NOT NULL
FROM pgfifo.queues
WHERE queue = $1
