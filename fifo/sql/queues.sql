-- Lists the names of the queues that have jobs, dead letters or settings, each once, in order.
--
-- It skips from name to name in the primary keys of jobs and of dead letters: one index probe a queue, whatever the
-- backlog. It reads only the key's columns of both, which a worker may read, too.
WITH RECURSIVE live AS (
    (SELECT j.queue FROM pgfifo.jobs j ORDER BY j.queue, j.group_id, j.id LIMIT 1)
    UNION ALL
    SELECT next.queue
    FROM live
    CROSS JOIN LATERAL (
        SELECT j.queue FROM pgfifo.jobs j WHERE j.queue > live.queue ORDER BY j.queue, j.group_id, j.id LIMIT 1) next
), dead AS (
    (SELECT d.queue FROM pgfifo.dead_letters d ORDER BY d.queue, d.group_id, d.id LIMIT 1)
    UNION ALL
    SELECT next.queue
    FROM dead
    CROSS JOIN LATERAL (
        SELECT d.queue FROM pgfifo.dead_letters d WHERE d.queue > dead.queue
        ORDER BY d.queue, d.group_id, d.id LIMIT 1) next
)
SELECT q.queue FROM (
    SELECT live.queue FROM live
    UNION
    SELECT dead.queue FROM dead
    UNION
    SELECT c.queue FROM pgfifo.queues c
) q
ORDER BY q.queue
