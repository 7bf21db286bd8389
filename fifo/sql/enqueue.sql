-- Enqueues messages: all or none, one statement, one round trip, however many there are.
--
-- $1 queues, $2 group ids, $3 payloads, $4 delays in microseconds, $5 maximum attempts (0: the worker's default), all of
-- one length; $6 a notification channel and $7 what to say there ('': nothing).
--
-- It inserts into one table and locks nothing that exists, so it never waits: not for a running job, whatever that job
-- does, nor for another producer. Ids are drawn in the order of the messages; the answer is in any order.
WITH added AS (
    INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at, max_attempts)
    SELECT m.queue, m.group_id, m.payload,
           CASE WHEN m.delay > 0 THEN statement_timestamp() + m.delay::float8 * interval '1 microsecond' END,
           nullif(m.max_attempts, 0)
    FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::integer[])
         WITH ORDINALITY AS m (queue, group_id, payload, delay, max_attempts, n)
    ORDER BY m.n
    RETURNING id
)
SELECT id FROM added
UNION ALL
SELECT 0 FROM pg_notify($6, $7) WHERE $7 <> ''
