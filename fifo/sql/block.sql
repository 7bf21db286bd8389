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
        failures = pgfifo.with_failure(failures, $9::integer, attempts + 1, $5::text, $6::text, $7::text, $8::text)
    WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
    RETURNING queue, group_id, id
)
SELECT pgfifo.block_group(queue, group_id, id, $10::text) FROM job
