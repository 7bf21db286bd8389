-- Locks one of the slots of a group of which several jobs may run at once, behind one of the slots of its queue if that
-- has a limit. No row: the queue has no limit of groups. It never waits.
--
-- $1 queue, $2 group id. over says that the queue has no slot free, locked that a slot of the group is.
--
-- What lock_slot.sql says of a queue's slots holds for those of a group: there are as many as may be locked, a row lock
-- has one owner, and the claim's transaction keeps it until the job is settled. They say nothing of who runs which job,
-- nor of who has died with one: marks do (mark.sql).
WITH slot AS MATERIALIZED (
    SELECT s.n
    FROM pgfifo.slots s
    WHERE s.queue = $1 AND s.n <= (SELECT q.max_running FROM pgfifo.queues q WHERE q.queue = $1)
    ORDER BY s.queue, s.n
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT q.max_running > 0 AND NOT EXISTS (SELECT FROM slot) AS over, g.n IS NOT NULL AS locked
FROM pgfifo.queues q
LEFT JOIN LATERAL (SELECT s.n
                   FROM pgfifo.group_slots s
                   WHERE s.queue = $1 AND s.group_id = $2 AND s.n <= q.group_limit
                     AND (q.max_running = 0 OR EXISTS (SELECT FROM slot))
                   ORDER BY s.queue, s.group_id, s.n
                   LIMIT 1
                   FOR NO KEY UPDATE SKIP LOCKED) g ON true
WHERE q.queue = $1 AND q.group_limit > 0
