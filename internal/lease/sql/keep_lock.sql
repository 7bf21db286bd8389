-- Locks the rows of groups that a session is to have, as lock_many.sql does: the numbers of those that are locked. It
-- passes over what is locked. A row that is updated between the snapshot and the lock may be waited for all the same
-- (PostgreSQL locks its newer version, too, and waits for whoever has that), for as long as lock_timeout is.
--
-- $1 queues, $2 group ids, pairwise; no group twice.
SELECT k.n::integer
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (queue, group_id, n)
CROSS JOIN LATERAL (SELECT r.token
                    FROM pgfifo.queue_groups r
                    WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.session IS NULL
                    FOR NO KEY UPDATE SKIP LOCKED) g
