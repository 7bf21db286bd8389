-- Finds a job by its id: its group, how many jobs of that are before it, and what it was given up with if it is a dead
-- letter. For people: takes no lock, and may be stale when it arrives.
--
-- $1 queue, $2 group id (NULL: any of the queue), $3 id, $4 how many to count at most. No row: there is no such job.
--
-- In a queue of which several jobs of a group may run at once (most, or 0), running says how many do, and next whether
-- all that are before this one do.
--
-- A live job is found by the index of ids, whatever plan is made: OFFSET keeps the other conditions out of it.
SELECT job.group_id, false AS dead,
       (SELECT pg_catalog.count(*) FROM (SELECT FROM pgfifo.jobs b
                                         WHERE b.queue = $1 AND b.group_id = job.group_id AND b.id < $3
                                         LIMIT $4) few) AS ahead,
       0 AS attempts, NULL::timestamptz AS enqueued_at, NULL::timestamptz AS died_at, NULL::jsonb AS last_failure,
       coalesce(q.group_limit, 0) AS most,
       coalesce(pg_catalog.cardinality(run.xids), 0) AS running,
       run.xids IS NOT NULL
       AND NOT EXISTS (SELECT FROM pgfifo.jobs b
                       WHERE b.queue = $1 AND b.group_id = job.group_id AND b.id < $3
                         AND b.xmax <> ALL (run.xids)) AS next
FROM (SELECT j.queue, j.group_id FROM pgfifo.jobs j WHERE j.id + 0 = $3::bigint OFFSET 0) job
LEFT JOIN pgfifo.queues q ON q.queue = job.queue
LEFT JOIN LATERAL (SELECT pg_catalog.array_agg(s.xmax) AS xids
                   FROM pgfifo.group_slots s
                   JOIN pg_catalog.pg_stat_activity a ON a.backend_xid = s.xmax
                   WHERE s.queue = $1 AND s.group_id = job.group_id) run ON q.group_limit > 0
WHERE job.queue = $1 AND ($2::text IS NULL OR job.group_id = $2)
UNION ALL
SELECT d.group_id, true, 0, d.attempts,
       pgfifo.in_range(d.enqueued_at), pgfifo.in_range(d.died_at), d.failures -> -1, 0, 0, false
FROM pgfifo.dead_letters d
WHERE d.queue = $1 AND ($2::text IS NULL OR d.group_id = $2) AND d.id = $3
LIMIT 1
