-- Enqueues one message, as enqueue.sql does with any number, at two thirds of the cost: it is the common case. No row:
-- a trigger of the user's has kept the job from being made.
--
-- $1 queue, $2 group id, $3 payload, $4 delay in microseconds, $5 maximum attempts (0: the worker's default), $6
-- headers, $7 when to run, in microseconds since 1970 (0: when the delay is over).
INSERT INTO pgfifo.jobs (queue, group_id, payload, headers, run_at, max_attempts)
VALUES ($1::text, $2::text, $3::bytea, $6::text::jsonb,
        CASE WHEN $4::bigint > 0 THEN statement_timestamp() + $4::bigint::float8 * interval '1 microsecond'
             WHEN pg_catalog.to_timestamp(0) + $7::bigint::float8 * interval '1 microsecond' > statement_timestamp()
             THEN pg_catalog.to_timestamp(0) + $7::bigint::float8 * interval '1 microsecond'
        END,
        nullif($5::integer, 0))
RETURNING id::text AS ids, pg_current_xact_id()::text::bigint AS xid
