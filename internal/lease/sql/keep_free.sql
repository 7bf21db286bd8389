-- Lets groups go that a session has: given back, or to be counted as lost. The answer is those that it could not let go
-- yet, by their numbers, because their rows are locked: by a transaction of its own worker that is ending.
--
-- $1 queues, $2 group ids, $3 tokens of their claims, $4 what becomes of the row's session: 0 for none, or the number
-- of one that does not live, for an attempt that is to be counted (internal/schedule/sql/reclaim.sql); pairwise, no
-- group twice. $5 the session. It never waits.
WITH own AS MATERIALIZED (
    SELECT k.n, k.queue, k.group_id, k.next
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
         WITH ORDINALITY AS k (queue, group_id, token, next, n)
    CROSS JOIN LATERAL (SELECT r.token
                        FROM pgfifo.queue_groups r
                        WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.token = k.token AND r.session = $5
                        FOR NO KEY UPDATE SKIP LOCKED) g
), freed AS (
    UPDATE pgfifo.queue_groups g SET session = nullif(own.next, 0)
    FROM own
    WHERE g.queue = own.queue AND g.group_id = own.group_id
)
SELECT k.n::integer
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k (queue, group_id, token, n)
WHERE (SELECT r.token = k.token AND r.session = $5
       FROM pgfifo.queue_groups r
       WHERE r.queue = k.queue AND r.group_id = k.group_id)
  AND (SELECT true FROM own WHERE own.n = k.n) IS NULL
