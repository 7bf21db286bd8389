-- Locks one of the slots of a queue that has a limit, and then groups of it as lock_many.sql does. No row: no slot is
-- free, and nothing is locked. It passes over what is locked; but see keep_lock.sql.
--
-- $1 queue, $2 group ids; no group twice. A group without a group_xid is not locked.
--
-- Why the limit is never exceeded: a queue has as many rows here that may be locked, a row lock has one owner, and the
-- claim's transaction keeps its own until the job is settled. Nobody counts, and whatever ends that transaction frees
-- the slot. A claim without a slot starts no job: the queue's row in pauses that says "limited" stops it.
--
-- The slot comes first. A group that were locked without one would have to be given back, and that would cover whose it
-- was before, which may be evidence of a crash (evidence.sql). So the look at a group's jobs is not gated on the
-- transaction's id, which the slot has given it, but on the group's row: see slot.go.
--
-- A queue of which several jobs of a group may run at once has no slot for this claim, which knows nothing of that.
--
-- It passes over those in use one by one, in a few microseconds each.
WITH slot AS MATERIALIZED (
    SELECT s.n
    FROM pgfifo.slots s
    WHERE s.queue = $1 AND NOT pgfifo.lives(s.session)
      AND s.n <= (SELECT q.max_running FROM pgfifo.queues q WHERE q.queue = $1 AND q.group_limit = 0)
    ORDER BY s.queue, s.n
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT k.n::integer, g.xid AS group_xid, pg_current_xact_id()::xid AS own_xid
FROM slot
CROSS JOIN pg_catalog.unnest($2::text[]) WITH ORDINALITY AS k (group_id, n)
LEFT JOIN LATERAL (SELECT g.xmax AS xid
                   FROM pgfifo.queue_groups g
                   WHERE g.queue = $1 AND g.group_id = k.group_id AND g.session IS NULL
                     AND slot.n > 0 -- behind the slot, in any plan
                   FOR NO KEY UPDATE SKIP LOCKED) g ON true
