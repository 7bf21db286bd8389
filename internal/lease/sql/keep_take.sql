-- Locks the rows of groups that a session has, to settle their jobs in this transaction: their numbers. One that is not
-- the claim's any more is not returned; it may be locked all the same.
--
-- $1 queues, $2 group ids, $3 tokens of their claims, $4 their sessions, pairwise; no group twice.
--
-- The session is looked at, too: a dump that is restored takes the tokens back, and the same one is drawn again, for
-- another job perhaps. The number of a session is random.
--
-- It waits for whoever has a row locked. Then it looks at the row as it is by that time, with its token (PostgreSQL
-- manual, "Read Committed Isolation Level"): a claim that came before has written another one, and one that comes later
-- finds the row locked.
SELECT k.n::integer
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
     WITH ORDINALITY AS k (queue, group_id, token, session, n)
CROSS JOIN LATERAL (SELECT r.token
                    FROM pgfifo.queue_groups r
                    WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.token = k.token
                      AND r.session = k.session
                    FOR NO KEY UPDATE) g
