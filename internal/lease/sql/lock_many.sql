-- Locks the rows of several groups of a queue, as lock.sql does with one. It waits for nobody; but see keep_lock.sql.
--
-- $1 queue, $2 group ids; no group twice. A group without a row in the answer is not locked.
--
-- The sub-select has a lock of its own, so that the planner takes it as it stands: as a join, a plan made while the
-- table was empty would read all groups of the queue for each of them.
SELECT k.n::integer, g.xid AS group_xid, pg_current_xact_id()::xid AS own_xid
FROM pg_catalog.unnest($2::text[]) WITH ORDINALITY AS k (group_id, n)
CROSS JOIN LATERAL (SELECT g.xmax AS xid
                    FROM pgfifo.queue_groups g
                    WHERE g.queue = $1 AND g.group_id = k.group_id AND g.session IS NULL
                    FOR NO KEY UPDATE SKIP LOCKED) g
