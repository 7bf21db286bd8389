-- Replaces the settings of a queue. No row: they are not those that are to be replaced, and stay.
--
-- $1 queue, $2 whether those to be replaced are the defaults, which a queue without a row has, too. Then in pairs, what
-- there is and what there is to be: $3 and $4 the window of deduplication in microseconds, $5 and $6 whether it is by
-- group, $7 and $8 how long dead letters are kept in microseconds (0: for ever).
INSERT INTO pgfifo.queues AS q (queue, dedup_window, dedup_by_group, dead_letter_retention)
SELECT $1::text, $4::bigint, $6::boolean, $8::bigint
WHERE $2::boolean OR EXISTS (SELECT FROM pgfifo.queues WHERE queue = $1)
ON CONFLICT (queue) DO UPDATE SET
    dedup_window = EXCLUDED.dedup_window, dedup_by_group = EXCLUDED.dedup_by_group,
    dead_letter_retention = EXCLUDED.dead_letter_retention
WHERE q.dedup_window = $3 AND q.dedup_by_group = $5 AND q.dead_letter_retention = $7
RETURNING true
