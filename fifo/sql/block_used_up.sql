-- Blocks the group of a job that had used up its attempts before it was claimed, as block.sql does: nothing is counted.
-- Run in the transaction that holds the job: one row.
--
-- $1 queue, $2 group id, $3 id, $4 attempts, $5 reason. No row: the job is gone, or has its attempts again. It is
-- locked before the pause, as block.sql does it.
WITH job AS MATERIALIZED (
    SELECT j.queue, j.group_id, j.id, j.failures -> -1 ->> 'error' AS error
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3 AND j.attempts = $4::integer
    FOR NO KEY UPDATE
)
SELECT pgfifo.block_group(queue, group_id, id, pg_catalog.left($5::text || coalesce(': ' || error, ''), 250)) FROM job
