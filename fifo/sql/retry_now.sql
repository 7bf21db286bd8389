-- Lets a job that is delayed or backs off run as soon as its turn comes. No row: there is no such job, or it is
-- running: it has its row locked, and is not waited for; or this very transaction runs it.
--
-- $1 queue, $2 group id, $3 id. xid is the transaction's id. The time is kept, so that workers which are not told find
-- the job when they look for what is due.
WITH job AS (
    SELECT
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3
      AND (j.xmax = pg_current_xact_id_if_assigned()::xid AND pgfifo.runs_here(j.queue, j.group_id, j.xmax)) IS NOT TRUE
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgfifo.jobs j SET run_at = statement_timestamp()
FROM job
WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3
RETURNING pg_current_xact_id()::text::bigint AS xid
