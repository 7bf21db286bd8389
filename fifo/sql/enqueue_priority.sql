-- Enqueues messages of which some have a priority, as enqueue.sql does others: with its parameters, and $9 priorities
-- (0: none). Apart from that, so that who has none writes no column more.
INSERT INTO pgfifo.jobs (queue, group_id, payload, headers, run_at, max_attempts, priority)
SELECT m.queue, m.group_id, m.payload, m.headers::jsonb,
       CASE WHEN m.delay > 0 THEN clock_timestamp() + m.delay::float8 * interval '1 microsecond'
            WHEN pg_catalog.to_timestamp(0) + m.run_at::float8 * interval '1 microsecond' > statement_timestamp()
            THEN pg_catalog.to_timestamp(0) + m.run_at::float8 * interval '1 microsecond'
       END,
       nullif(m.max_attempts, 0), nullif(m.priority, 0)
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::integer[], $7::text[], $8::bigint[], $9::integer[])
     WITH ORDINALITY AS m (queue, group_id, payload, delay, max_attempts, headers, run_at, priority, n)
WHERE CASE WHEN $6::boolean[] IS NOT NULL
           THEN (SELECT count(pg_advisory_xact_lock(k.hash)) >= 0
                 FROM (SELECT DISTINCT
                              hashtextextended('pgfifo ' || g.queue || '/' || g.group_id, length(g.queue)::bigint)
                       FROM unnest($1::text[], $2::text[], $6::boolean[]) AS g (queue, group_id, in_order)
                       WHERE g.in_order
                       ORDER BY 1) AS k (hash))
           ELSE true
      END
ORDER BY m.n
RETURNING id, pg_current_xact_id()::text::bigint AS xid
