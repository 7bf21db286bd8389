-- Takes slots of a queue that has a limit for a session, as lock_slot.sql does for a transaction: their numbers, at
-- most $2. It passes over what is locked; but see keep_lock.sql.
--
-- $1 queue, $2 how many, $3 the session.
--
-- Why the limit is never exceeded: a slot is a claim's, by the lock of its row, or a session's, by its mark. Whoever
-- takes one has locked the row, and sees the mark. One whose session has died is free.
--
-- The free ones are materialized: as the inner side of a join, in a plan made while there was one slot or none, the
-- look would be made again for each slot, pass over what it has just updated, and take them all.
WITH free AS MATERIALIZED (
    SELECT f.n
    FROM pgfifo.slots f
    WHERE f.queue = $1 AND f.n <= (SELECT q.max_running FROM pgfifo.queues q WHERE q.queue = $1)
      AND f.session IS DISTINCT FROM $3 AND NOT pgfifo.lives(f.session)
    ORDER BY f.queue, f.n
    LIMIT $2
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgfifo.slots s SET session = $3
FROM free
WHERE s.queue = $1 AND s.n = free.n
RETURNING s.n::integer
