-- Lists up to $5 jobs of a queue that may run from some time between $2 and $4 on, in the order of these times.
--
-- $1 queue, $2 and $3 time and id of the last job that was listed, $4 the latest time.
--
-- A hint: the job need not be its group's head. groups.sql looks at the heads.
SELECT j.group_id, j.id, j.run_at
FROM pgfifo.jobs j
WHERE j.queue = $1 AND (j.run_at, j.id) > ($2, $3) AND j.run_at <= $4
ORDER BY j.queue, j.run_at, j.id
LIMIT $5
