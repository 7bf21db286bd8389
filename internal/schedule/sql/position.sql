-- Tells what there is to be compared with at the next look: the time, the last id that was drawn, and a digest of what
-- is paused.
--
-- $1 queues. A sequence shows what has been drawn by anybody, committed or not.
SELECT statement_timestamp() AS now,
       CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS last_id,
       (SELECT coalesce(pg_catalog.hashtextextended(
                            pg_catalog.string_agg(p.queue || ' ' || p.group_id, ',' ORDER BY p.queue, p.group_id),
                            0::bigint), 0)
        FROM pgfifo.pauses p
        WHERE p.queue = ANY ($1::text[]) AND NOT p.limited) AS paused
FROM pgfifo.jobs_id_seq s
