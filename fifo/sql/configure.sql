-- Gives settings to a queue that has none. No row: it has some, which stay.
--
-- $1 queue, then its settings: $2 the window of deduplication in microseconds, $3 whether it is by group, $4 how long
-- dead letters are kept in microseconds (0: for ever), $5 the limit, $6 that of groups, $7 its lease.
-- Of two that do this at once, the second waits for the first to end its transaction.
--
-- With a limit, or one of groups above 1, it makes the slots, and the mark that keeps claims without a slot from
-- starting jobs.
WITH stored AS (
    INSERT INTO pgfifo.queues
        (queue, dedup_window, dedup_by_group, dead_letter_retention, max_running, group_limit, lease)
    VALUES ($1, $2, $3, $4, $5, CASE WHEN $6::integer > 1 THEN $6::integer ELSE 0 END, nullif($7::text, 'transaction'))
    ON CONFLICT (queue) DO NOTHING
    RETURNING queue, max_running, group_limit
), slots AS (
    INSERT INTO pgfifo.slots (queue, n)
    SELECT queue, pg_catalog.generate_series(1, max_running::integer) FROM stored
    ON CONFLICT DO NOTHING
), mark AS (
    INSERT INTO pgfifo.pauses (queue, limited)
    SELECT queue, true FROM stored WHERE max_running > 0 OR group_limit > 0
    ON CONFLICT DO NOTHING
)
SELECT true FROM stored
