-- Reads the jobs behind the head of a group that this transaction has just claimed with claim.sql, for a batch; nothing
-- if the claim missed.
--
-- $1 queue, $2 group id, $3 the floor of the claim, $4 how many, the head included.
--
-- A statement of its own, hence with a snapshot taken after the group's row was locked: nobody else has been able to work
-- the group since, so the jobs that follow the head here are the next ones. It locks nothing: the group's row says
-- whose they are, and who settles them counts the rows. The head comes first, unless a lower id was committed since it was
-- chosen: then the worker takes no more than its head, for what is behind that may have been enqueued after the lower id.
-- Else it takes what is behind its head, and no more than up to the first that is to run alone.
SELECT j.id,
       j.payload,
       j.attempts,
       j.max_attempts,
       j.enqueued_at,
       j.run_at IS NOT NULL AS delayed,
       j.ctid
FROM pgfifo.jobs j
WHERE j.queue = $1 AND j.group_id = $2 AND j.id > $3
  AND (SELECT g.xmax = pg_current_xact_id_if_assigned()::xid
       FROM pgfifo.queue_groups g
       WHERE g.queue = $1 AND g.group_id = $2)
ORDER BY j.queue, j.group_id, j.id
LIMIT $4
