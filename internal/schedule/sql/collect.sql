-- Collects idle group rows, step 2 of 2, in the same transaction: deletes those of step 1 that still have no jobs.
--
-- A second statement, hence a new snapshot: a job that was enqueued since keeps its group's row. One that is enqueued
-- later finds none; the next discovery makes it again (heads.sql, missing), so no job is stranded either way.
DELETE FROM pgfifo.queue_groups g
USING unnest($1::text[], $2::text[]) AS k (queue, group_id)
WHERE g.queue = k.queue AND g.group_id = k.group_id
  AND (SELECT true FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id LIMIT 1) IS NULL
