-- Enqueues messages as enqueue.sql does, with the same parameters, but producers of one group wait for each other: the
-- second draws its ids when the first has committed or rolled back, so order by id is order by commit.
--
-- The lock is an advisory one that belongs to the transaction, never the group's row, which the worker holds. Keys are
-- locked in one order everywhere, so batches cannot deadlock with each other; a transaction that enqueues twice can,
-- with another that enqueues to the same groups the other way round, and PostgreSQL then ends one of them.
WITH m AS MATERIALIZED (
    SELECT *
    FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::integer[])
         WITH ORDINALITY AS m (queue, group_id, payload, delay, max_attempts, n)
), turn AS MATERIALIZED ( -- counted, so that every lock is taken before the first id is drawn
    SELECT count(pg_advisory_xact_lock(k.hash)) AS groups
    FROM (SELECT DISTINCT hashtextextended('pgfifo ' || queue || '/' || group_id, length(queue)::bigint) AS hash
          FROM m ORDER BY hash) k
), added AS (
    INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at, max_attempts)
    SELECT m.queue, m.group_id, m.payload,
           CASE WHEN m.delay > 0 THEN statement_timestamp() + m.delay::float8 * interval '1 microsecond' END,
           nullif(m.max_attempts, 0)
    FROM turn CROSS JOIN m
    WHERE turn.groups > 0
    ORDER BY m.n
    RETURNING id
)
SELECT id FROM added
UNION ALL
SELECT 0 FROM pg_notify($6, $7) WHERE $7 <> ''
