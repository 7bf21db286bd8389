-- Looks at the heads of named groups, as candidates.sql does at those of a queue: without locks, a hint. A group
-- without jobs has no row in the answer. It ends with heads.sql.
--
-- $1 queues, $2 group ids, pairwise.
WITH walk AS MATERIALIZED (
    SELECT k.queue, k.group_id, first.id, first.run_at, first.xid, first.priority
    FROM unnest($1::text[], $2::text[]) AS k (queue, group_id)
    CROSS JOIN LATERAL (
        SELECT j.id, j.run_at, j.xmax AS xid, j.priority
        FROM pgfifo.jobs j
        WHERE j.queue = k.queue AND j.group_id = k.group_id
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) first
)
