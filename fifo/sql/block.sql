-- Records the attempt with which a job is given up, leaves it at the head of its group, and blocks that group: a pause
-- that names the job. Run in the transaction that holds the job, after the handler's writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 attempts before this one, $5 kind of failure, $6 error, $7 stack ('': none), $8
-- worker, $9 how many failures to keep, $10 reason. No row: somebody else has counted the attempt. A group that an
-- operator has paused meanwhile keeps his reason. Where another job has blocked the group already
-- (Settings.GroupLimit), it stays the one that the pause names, and this one blocks the group when it is the next to
-- start: block_used_up.sql. So it does if somebody keeps the group's pause in an open transaction.
WITH job AS (
    UPDATE pgfifo.jobs
    SET attempts = attempts + 1,
        run_at   = NULL,
        failures = CASE WHEN jsonb_array_length(failures) >= $9::integer
                        THEN failures - 0
                        ELSE coalesce(failures, '[]')
                   END
                   || pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                          'attempt', attempts + 1, 'kind', $5::text, 'error', $6::text, 'stack', nullif($7::text, ''),
                          'worker', $8::text, 'at', statement_timestamp()))
    WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
    RETURNING queue, group_id, id
)
SELECT pgfifo.block_group(queue, group_id, id, $10::text) FROM job
