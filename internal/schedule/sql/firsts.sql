-- Lists up to $2 queues that have jobs, in the order of their names from behind queue $1, with the head of each one's
-- first group. For a log: it takes no lock, and may be stale when it arrives.
--
-- $1 queue to start behind ('': at the beginning), $2 how many queues to visit.
--
-- It skips from queue to queue in the primary key: one index probe a queue, whatever the backlog. So it tells nothing
-- of a queue's other groups. It gives as run_at when the job began to wait: at its enqueue, or at its run_at if that is
-- later. So a due_in_us below 0 tells how long the job has waited. It ends with heads.sql.
WITH RECURSIVE walk AS (
    (SELECT j.queue, j.group_id, j.id, greatest(j.run_at, j.enqueued_at) AS run_at, j.xmax AS xid, j.priority, 1 AS n
     FROM pgfifo.jobs j
     WHERE j.queue > $1
     ORDER BY j.queue, j.group_id, j.id
     LIMIT 1)
    UNION ALL
    SELECT next.queue, next.group_id, next.id, next.run_at, next.xmax, next.priority, walk.n + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.queue, j.group_id, j.id, greatest(j.run_at, j.enqueued_at) AS run_at, j.xmax, j.priority
        FROM pgfifo.jobs j
        WHERE j.queue > walk.queue
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) next
    WHERE walk.n < $2
)
