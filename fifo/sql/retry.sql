-- Records a failed attempt and leaves the job at the head of its group, to be tried again not before $4 microseconds
-- from now (0: at once). Run in the transaction that holds the job, after the handler's writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 delay, $5 kind of failure, $6 error, $7 stack ('': none), $8 worker, $9 how many
-- failures to keep. The id, and so the place in the group, does not change.
--
-- With the first failure the group's row gets a new version, in which nothing is new: a claim whose snapshot does not have the
-- job yet cannot lock the group without meeting it. See groups/sql/claim.sql. Later snapshots have the job.
WITH met AS (
    UPDATE pgfifo.queue_groups SET created_at = created_at
    WHERE queue = $1 AND group_id = $2
      AND (SELECT j.attempts FROM pgfifo.jobs j WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3) = 0
)
UPDATE pgfifo.jobs
SET attempts = attempts + 1,
    run_at   = CASE WHEN $4::bigint > 0 THEN statement_timestamp() + $4::bigint::float8 * interval '1 microsecond' END,
    failures = CASE WHEN jsonb_array_length(failures) >= $9::integer THEN failures - 0 ELSE coalesce(failures, '[]') END
               || pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                      'attempt', attempts + 1, 'kind', $5::text, 'error', $6::text, 'stack', nullif($7::text, ''),
                      'worker', $8::text, 'at', statement_timestamp()))
WHERE queue = $1 AND group_id = $2 AND id = $3
