-- Takes the mark of its limit from a queue that has none, nor one of groups, so that claims need no slots.
--
-- $1 queue. Run it after reconfigure.sql, in the same transaction: that has the row of the queue, so nobody else makes
-- a mark meanwhile, and this snapshot has those that were made before.
DELETE FROM pgfifo.pauses
WHERE queue = $1 AND limited
  AND (SELECT q.max_running + q.group_limit FROM pgfifo.queues q WHERE q.queue = $1) = 0
