-- Lists groups with a job that has a priority and may run now, whatever the backlog of others: of each queue and
-- priority the groups of the next $5 such jobs, those of the highest first.
--
-- $1 queues, $2 priorities, and where to begin with each, of one length, none twice: behind $3 a time ('-infinity' for
-- a job without one) and $4 a group id.
--
-- It costs as much as the jobs that it reads, and an index probe for each priority of which there is none. A group that
-- has many of them may be named several times; the next page begins behind all of them.
--
-- A hint: the job need not be its group's head. probe.sql looks at the heads.
SELECT s.queue, s.priority, next.due, next.group_id
FROM unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::text[]) AS s (queue, priority, due, group_id)
CROSS JOIN LATERAL (
    SELECT coalesce(j.run_at, '-infinity') AS due, j.group_id
    FROM pgfifo.jobs j
    WHERE j.queue = s.queue AND j.priority = s.priority
      AND (coalesce(j.run_at, '-infinity'), j.group_id) > (s.due, s.group_id)
      AND coalesce(j.run_at, '-infinity') <= statement_timestamp()
    ORDER BY j.queue, j.priority, coalesce(j.run_at, '-infinity'), j.group_id
    LIMIT $5) next
ORDER BY s.priority DESC, s.queue, next.due, next.group_id
