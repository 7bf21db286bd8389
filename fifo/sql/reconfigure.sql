-- Replaces the settings of a queue. No row: they are not those that are to be replaced, and stay.
--
-- $1 queue, $2 whether those to be replaced are the defaults, which a queue without a row has, too. Then in pairs, what
-- there is and what there is to be: $3 and $4 the window of deduplication in microseconds, $5 and $6 whether it is by
-- group, $7 and $8 how long dead letters are kept in microseconds (0: for ever), $9 and $10 the limit.
--
-- With a limit, it makes what slots are missing, and the mark that keeps claims without a slot from starting jobs.
-- Those above a limit that is lowered stay, and no claim takes them (lock_slot.sql): some may be in use, and nobody
-- waits for a running job. The mark of a limit that is no more is left to unlimit.sql.
WITH stored AS (
    INSERT INTO pgfifo.queues AS q (queue, dedup_window, dedup_by_group, dead_letter_retention, max_running)
    SELECT $1::text, $4::bigint, $6::boolean, $8::bigint, $10::integer
    WHERE $2::boolean OR EXISTS (SELECT FROM pgfifo.queues WHERE queue = $1)
    ON CONFLICT (queue) DO UPDATE SET dedup_window = EXCLUDED.dedup_window, dedup_by_group = EXCLUDED.dedup_by_group,
                                      dead_letter_retention = EXCLUDED.dead_letter_retention,
                                      max_running = EXCLUDED.max_running
    WHERE q.dedup_window = $3 AND q.dedup_by_group = $5 AND q.dead_letter_retention = $7
      AND q.max_running = $9
    RETURNING queue, max_running
), slots AS (
    INSERT INTO pgfifo.slots (queue, n)
    SELECT queue, pg_catalog.generate_series(1, max_running::integer) FROM stored
    ON CONFLICT DO NOTHING
), mark AS (
    INSERT INTO pgfifo.pauses (queue, limited)
    SELECT queue, true FROM stored WHERE max_running > 0
    ON CONFLICT DO NOTHING
)
SELECT true FROM stored
