-- Lists groups with a job that has a priority and may run now, whatever the backlog of others: of each queue and
-- priority the groups of the next $6 such jobs, those of the highest first.
--
-- $1 queues. For some of their priorities, where to go on: $2 queues and $3 priorities, none twice, behind $4 time and
-- $5 group id, all of one length. The others begin with the first job. A job without a time has '-infinity'.
--
-- It costs as much as the jobs that it reads, and an index probe for each queue and for each priority that has jobs
-- there: it skips from the highest of a queue to the next lower one. A group that has many such jobs may be named
-- several times; the next page begins behind all of them.
--
-- A hint: the job need not be its group's head. groups.sql looks at the heads.
WITH RECURSIVE used AS (
    SELECT q.queue, 10::smallint AS priority -- above all
    FROM pg_catalog.unnest($1::text[]) AS q (queue)
    UNION ALL
    SELECT used.queue, (SELECT j.priority::smallint
                        FROM pgfifo.jobs j
                        WHERE j.queue = used.queue AND j.priority < used.priority
                        ORDER BY j.queue DESC, j.priority DESC
                        LIMIT 1)
    FROM used
    WHERE used.priority IS NOT NULL
)
SELECT used.queue, used.priority, next.due, next.group_id
FROM used
LEFT JOIN unnest($2::text[], $3::smallint[], $4::timestamptz[], $5::text[]) AS s (queue, priority, due, group_id)
    ON s.queue = used.queue AND s.priority = used.priority
CROSS JOIN LATERAL (
    SELECT coalesce(j.run_at, '-infinity') AS due, j.group_id
    FROM pgfifo.jobs j
    WHERE j.queue = used.queue AND j.priority = used.priority
      AND (coalesce(j.run_at, '-infinity'), j.group_id) > (coalesce(s.due, '-infinity'), coalesce(s.group_id, ''))
      AND coalesce(j.run_at, '-infinity') <= statement_timestamp()
    ORDER BY j.queue, j.priority, coalesce(j.run_at, '-infinity'), j.group_id
    LIMIT $6) next
WHERE used.priority < 10
ORDER BY used.priority DESC, used.queue, next.due, next.group_id
