-- Replaces the settings of a queue. No row: they are not those that are to be replaced, and stay.
--
-- $1 queue, $2 whether those to be replaced are the defaults, which a queue without a row has, too. Then in pairs, what
-- there is and what there is to be: $3 and $4 the window of deduplication in microseconds, $5 and $6 whether it is by
-- group, $7 and $8 how long dead letters are kept in microseconds (0: for ever), $9 and $10 the limit, $11 and $12 that
-- of groups, $13 and $14 its lease. A queue that has had a limit of groups keeps the default lease, and the other way
-- round: what was begun by then would not be seen.
--
-- With a limit, or one of groups, it makes what slots are missing, and the mark that keeps claims without a slot from
-- starting jobs. Those above a limit that is lowered stay, and no claim takes them (lock_slot.sql): some may be in use,
-- and nobody waits for a running job. The mark of a limit that is no more is left to unlimit.sql. A queue that has had
-- a limit of groups above 1 keeps one, of 1, and the mark: while jobs run that were started under the former one, the
-- lock of a group's own row would not know of them.
WITH stored AS (
    INSERT INTO pgfifo.queues AS q
        (queue, dedup_window, dedup_by_group, dead_letter_retention, max_running, group_limit, lease)
    SELECT $1::text, $4::bigint, $6::boolean, $8::bigint, $10::integer,
           CASE WHEN $12::integer > 1 THEN $12::integer ELSE 0 END, nullif($14::text, 'transaction')
    WHERE $2::boolean OR EXISTS (SELECT FROM pgfifo.queues WHERE queue = $1)
    ON CONFLICT (queue) DO UPDATE SET dedup_window = EXCLUDED.dedup_window, dedup_by_group = EXCLUDED.dedup_by_group,
                                      dead_letter_retention = EXCLUDED.dead_letter_retention,
                                      max_running = EXCLUDED.max_running,
                                      group_limit = CASE WHEN q.group_limit = 0 THEN EXCLUDED.group_limit
                                                         ELSE $12::integer END,
                                      lease = CASE WHEN q.lease IS NULL THEN EXCLUDED.lease ELSE $14::text END
    WHERE q.dedup_window = $3 AND q.dedup_by_group = $5 AND q.dead_letter_retention = $7
      AND q.max_running = $9
      AND greatest(q.group_limit, 1) = $11::integer
      AND coalesce(q.lease, 'transaction') = $13::text
      AND NOT ($12::integer > 1 AND q.lease IS NOT NULL OR $14::text <> 'transaction' AND q.group_limit > 0)
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
