-- Locks the jobs of the groups that this transaction has locked with keep_take.sql, and tells where their rows are.
--
-- $1 queues, $2 group ids, $3 ids, $4 tokens of their claims, $5 their sessions, pairwise; no group twice. own_xid is
-- this transaction.
--
-- The token is looked at once more: a row that has got another one while keep_take.sql waited for it is locked there,
-- and then not returned. Nobody changes it from then on.
SELECT k.n::integer, j.place, pg_current_xact_id() AS own_xid
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
     WITH ORDINALITY AS k (queue, group_id, id, token, session, n)
CROSS JOIN LATERAL (SELECT r.ctid AS place
                    FROM pgfifo.jobs r
                    WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.id = k.id
                      AND (SELECT g.xmax FROM pgfifo.queue_groups g
                           WHERE g.queue = k.queue AND g.group_id = k.group_id AND g.token = k.token
                             AND g.session = k.session)
                          = pg_current_xact_id_if_assigned()::xid
                    FOR NO KEY UPDATE) j
