-- Gives slots back that a session has taken (keep_slots.sql). The answer is those that it could not give back yet, by
-- their numbers, because their rows are locked: lock_slot.sql may have locked one that got a session meanwhile, and a
-- job of the default lease has it locked for as long as it runs.
--
-- $1 queues, $2 numbers, pairwise, no slot twice; $3 the session. It never waits.
WITH own AS MATERIALIZED (
    SELECT k.i, k.queue, k.n
    FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS k (queue, n, i)
    CROSS JOIN LATERAL (SELECT r.n
                        FROM pgfifo.slots r
                        WHERE r.queue = k.queue AND r.n = k.n AND r.session = $3
                        FOR NO KEY UPDATE SKIP LOCKED) s
), freed AS (
    UPDATE pgfifo.slots s SET session = NULL
    FROM own
    WHERE s.queue = own.queue AND s.n = own.n
)
SELECT k.i::integer
FROM unnest($1::text[], $2::integer[]) WITH ORDINALITY AS k (queue, n, i)
WHERE (SELECT r.session = $3 FROM pgfifo.slots r WHERE r.queue = k.queue AND r.n = k.n)
  AND (SELECT true FROM own WHERE own.i = k.i) IS NULL
