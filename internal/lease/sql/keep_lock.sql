-- Locks the rows of groups that a session is to have, as lock_many.sql does: the numbers of those that are locked. It
-- never waits.
--
-- $1 queues, $2 group ids, pairwise; no group twice.
SELECT k.n::integer
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (queue, group_id, n)
CROSS JOIN LATERAL (SELECT r.token
                    FROM pgfifo.queue_groups r
                    WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.session IS NULL
                    FOR NO KEY UPDATE SKIP LOCKED) g
