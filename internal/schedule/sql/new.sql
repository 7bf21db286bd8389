-- Lists the groups with jobs of a stretch of ids, each with the lowest of them.
--
-- $1 queues, $2 and $3 the stretch: ids above $2, and up to $3; $4 jobs that may not run before this are left out, and
-- found when it is time (due.sql).
--
-- "+ 0" is how the index is written.
--
-- A hint: the job need not be its group's head, and what is left out may be. groups.sql looks at the heads.
SELECT j.queue, j.group_id, min(j.id) AS id
FROM pgfifo.jobs j
WHERE j.id + 0 > $2 AND j.id + 0 <= $3 AND j.queue = ANY ($1::text[]) AND (j.run_at IS NULL OR j.run_at <= $4)
GROUP BY j.queue, j.group_id
