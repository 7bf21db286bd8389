-- Gives a job back to the head of its group until later: it is not tried before $5 microseconds from now, and the
-- attempt is not counted. Run in the transaction that holds the job, after the handler's writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 attempts before this one, $5 delay. The id, and so the place in the group, does not
-- change. No row: somebody else has counted the attempt.
UPDATE pgfifo.jobs
SET run_at = statement_timestamp() + $5::bigint::float8 * interval '1 microsecond'
WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
