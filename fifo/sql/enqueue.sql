-- Enqueues messages: all or none, one statement, one round trip, however many there are. Behind it stands enqueued.sql.
--
-- $1 queues, $2 group ids, $3 payloads, $4 delays in microseconds, $5 maximum attempts (0: the worker's default), $7
-- headers, $8 when to run, in microseconds since 1970 (0: when the delay is over), $9 priorities (0: none), all of one
-- length, or NULL for none; $6 whether in the order of commits (NULL: none of them).
--
-- It inserts into one table and locks nothing that exists, so it never waits: not for a running job, whatever that
-- job does, nor for another producer. Ids are drawn in the order of the messages; the answer is in any order.
--
-- In the order of commits, producers of one group wait for each other: the second draws its ids when the first has
-- committed or rolled back, so order by id is order by commit. The lock is an advisory one that belongs to the
-- transaction, never the group's row, which the worker holds. Its key begins with the schema's name, because the
-- schemas of a database share these locks. They are counted, so that all of them are taken before the first id is
-- drawn. Keys are locked in one order everywhere, so batches cannot deadlock with each other; a transaction that
-- enqueues twice can, with another that enqueues to the same groups the other way round, and PostgreSQL then ends one
-- of them.
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
RETURNING id
