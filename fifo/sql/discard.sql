-- Deletes a job that is given up; its group goes on. Run in the transaction that holds the job, after the handler's
-- writes are undone: one row.
--
-- $1 queue, $2 group id, $3 id, $4 attempts before this one. No row: somebody else has counted the attempt.
DELETE FROM pgfifo.jobs
WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
