-- Counts what there is: jobs, groups with jobs, dead letters; and tells when the oldest job was enqueued, and since
-- when a job is due. It reads an index entry of every job, and the row for its times.
--
-- $1 queue, $2 group id (NULL: the whole queue).
SELECT pg_catalog.count(*) AS jobs,
       pg_catalog.count(DISTINCT j.group_id) AS groups,
       (SELECT pg_catalog.count(*)
        FROM pgfifo.dead_letters d
        WHERE d.queue = $1 AND ($2::text IS NULL OR d.group_id = $2)) AS dead_letters,
       min(pgfifo.in_range(j.enqueued_at)) AS oldest_at,
       min(pgfifo.in_range(greatest(j.enqueued_at, j.run_at)))
           FILTER (WHERE j.run_at IS NULL OR j.run_at <= statement_timestamp()) AS due_since,
       false AS more
FROM pgfifo.jobs j
WHERE j.queue = $1 AND ($2::text IS NULL OR j.group_id = $2)
