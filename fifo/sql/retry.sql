-- Records a failed attempt and leaves the job at the head of its group, to be tried again not before $5 microseconds
-- from now (0: at once). Run in the transaction that holds the job, after the handler's writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 attempts before this one, $5 delay, $6 kind of failure, $7 error, $8 stack
-- ('': none), $9 worker, $10 how many failures to keep. The id, and so the place in the group, does not change. No row:
-- somebody else has counted the attempt.
UPDATE pgfifo.jobs
SET attempts = attempts + 1,
    run_at   = CASE WHEN $5::bigint > 0 THEN statement_timestamp() + $5::bigint::float8 * interval '1 microsecond' END,
    failures = pgfifo.with_failure(failures, $10::integer, attempts + 1, $6::text, $7::text, $8::text, $9::text)
WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
