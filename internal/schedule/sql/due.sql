-- Lists up to $6 jobs that become due until $5: by queue, in the order of $1, then by time and id.
--
-- $1 queues; $2 and $3 where the first queue goes on: time and id of the last job that was listed; $4 the earliest time
-- in the others; $5 the latest time.
--
-- One index probe a queue, and none in those behind the last job of a full answer: the function's rows come in the
-- order of n, so nothing is sorted. The inner LIMIT keeps it so, whatever the planner believes.
--
-- A hint: the job need not be its group's head. groups.sql looks at the heads.
SELECT k.queue, due.group_id, due.id, due.run_at
FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS k (queue, n)
CROSS JOIN LATERAL (
    SELECT j.group_id, j.id, j.run_at
    FROM pgfifo.jobs j
    WHERE j.queue = k.queue AND j.run_at <= $5
      AND (j.run_at, j.id) > (CASE k.n WHEN 1 THEN $2::timestamptz ELSE $4 END,
                              CASE k.n WHEN 1 THEN $3::bigint ELSE 0 END)
    ORDER BY j.queue, j.run_at, j.id
    LIMIT $6) due
ORDER BY k.n
LIMIT $6
