-- Makes the rows of groups that have none yet.
--
-- $1 queues, $2 group ids, pairwise.
--
-- Run by workers alone, in a transaction of its own that ends at once: a row that stayed uncommitted would make every
-- other worker wait here. DO NOTHING, not DO UPDATE, which would wait for the running job. Sorted, so that two workers
-- cannot deadlock. Losing these rows costs nothing, and everything that depends on one commits after it, so it does not
-- wait for the disk.
INSERT INTO pgfifo.queue_groups (queue, group_id)
SELECT DISTINCT k.queue, k.group_id
FROM set_config('synchronous_commit', 'off', true), unnest($1::text[], $2::text[]) AS k (queue, group_id)
ORDER BY 1, 2
ON CONFLICT DO NOTHING
