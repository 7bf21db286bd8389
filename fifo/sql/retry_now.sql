-- Lets a job that is delayed or backs off run as soon as its turn comes. Run after lock_job.sql.
--
-- $1 queue, $2 group id, $3 id. xid is the transaction's id. The time is kept, so that workers which are not told find
-- the job when they look for what is due.
UPDATE pgfifo.jobs SET run_at = statement_timestamp()
WHERE queue = $1 AND group_id = $2 AND id = $3
RETURNING pg_current_xact_id()::text::bigint AS xid
