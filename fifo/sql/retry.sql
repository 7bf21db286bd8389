-- Records a failed attempt and leaves the job at the head of its group, to be tried again not before $5 microseconds
-- from now (0: at once). Run in the transaction that holds the job, after the handler's writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 attempts before this one, $5 delay, $6 kind of failure, $7 error, $8 stack
-- ('': none), $9 worker, $10 how many failures to keep. The id, and so the place in the group, does not change. No row:
-- somebody else has counted the attempt.
UPDATE pgfifo.jobs
SET attempts = attempts + 1,
    run_at   = CASE WHEN $5::bigint > 0 THEN statement_timestamp() + $5::bigint::float8 * interval '1 microsecond' END,
    failures = CASE WHEN jsonb_array_length(failures) >= $10::integer
                    THEN failures - 0
                    ELSE coalesce(failures, '[]')
               END
               || pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
                      'attempt', attempts + 1, 'kind', $6::text, 'error', $7::text, 'stack', nullif($8::text, ''),
                      'worker', $9::text, 'at', statement_timestamp()))
WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
