-- Records the last attempt of a job and moves it to the dead letters; its group goes on. Run in the transaction that
-- holds the job, after the handler's writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 kind of failure, $5 error, $6 stack ('': none), $7 worker, $8 how many failures to
-- keep.
WITH job AS (
    DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 RETURNING *
)
INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, max_attempts, enqueued_at, failures)
SELECT queue, group_id, id, payload, attempts + 1, max_attempts, enqueued_at,
       CASE WHEN jsonb_array_length(failures) >= $8::integer THEN failures - 0 ELSE coalesce(failures, '[]') END
       || pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
              'attempt', attempts + 1, 'kind', $4::text, 'error', $5::text, 'stack', nullif($6::text, ''),
              'worker', $7::text, 'at', statement_timestamp()))
FROM job
