-- Gives slots back that a session has taken: keep_slots.sql.
--
-- $1 queues, $2 numbers, pairwise, $3 the session.
UPDATE pgfifo.slots s SET session = NULL
FROM unnest($1::text[], $2::integer[]) AS k (queue, n)
WHERE s.queue = k.queue AND s.n = k.n AND s.session = $3
