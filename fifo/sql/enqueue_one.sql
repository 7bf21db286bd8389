-- Enqueues one message, as enqueue.sql does with any number, at two thirds of the cost: it is the common case.
--
-- $1 queue, $2 group id, $3 payload, $4 delay in microseconds, $5 maximum attempts (0: the worker's default).
INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at, max_attempts)
VALUES ($1::text, $2::text, $3::bytea,
        CASE WHEN $4::bigint > 0 THEN statement_timestamp() + $4::bigint::float8 * interval '1 microsecond' END,
        nullif($5::integer, 0))
RETURNING id, pg_current_xact_id()::text::bigint AS xid
