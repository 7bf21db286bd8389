-- Locks a job to record what became of it, as relock.sql does with its group, where several jobs of a group may run at
-- once. One row, or none: the session that was lost has not ended yet, or somebody else has claimed the job since.
--
-- $1 queue, $2 group id; $3 as in relock.sql; $4 the transactions that were lost, as 32 bits; $5 id.
--
-- The mark of the attempt is taken back with what is recorded. If nothing is, whoever claims the job next finds it.
SELECT pg_current_xact_id() AS own_xid
FROM (SELECT j.id
      FROM pg_catalog.set_config('idle_in_transaction_session_timeout', $3::text, true) AS i,
           pgfifo.jobs j
      WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $5 AND j.xmax::text = ANY ($4::text[])
      FOR NO KEY UPDATE OF j SKIP LOCKED) l
