-- Lets the groups go that this transaction has taken with keep_take.sql, with its commit: one row.
--
-- $1 queues, $2 group ids, $3 tokens of their claims, pairwise. A row may be gone with the group's last job.
WITH freed AS (
    UPDATE pgfifo.queue_groups g SET session = NULL
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS k (queue, group_id, token)
    WHERE g.queue = k.queue AND g.group_id = k.group_id AND g.token = k.token
    RETURNING 1
)
SELECT count(*) FROM freed
