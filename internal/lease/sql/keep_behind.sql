-- Reads the jobs behind the heads that this transaction has claimed with keep_claim.sql, for batches: those of the
-- first group in order, then of the next.
--
-- $1 queues, $2 group ids, $3 how many jobs, the head included, pairwise; no group twice; $4 how many bytes the
-- payloads and headers of a group's may have together, $5 the session.
--
-- What claim_batch.sql says of the jobs behind a head holds here: they are not locked, the group is the session's. One
-- job more than wanted is read, to know whether there is more. Its payload is not sent, nor are those beyond $4.
-- version is the transaction that has written the row (keep_same.sql).
SELECT k.n::integer, w.id,
       CASE WHEN w.m < k.jobs AND w.bytes <= $4::bigint THEN w.payload END AS payload,
       w.attempts, w.max_attempts, w.enqueued_at, w.run_at,
       CASE WHEN w.run_at IS NOT NULL THEN statement_timestamp() END AS now, w.place,
       EXISTS (SELECT FROM pgfifo.attempt_marks m
               WHERE m.queue = k.queue AND m.group_id = k.group_id AND m.id = w.id AND m.attempt = w.attempts + 1)
           AS marked,
       CASE WHEN w.m < k.jobs AND w.bytes <= $4::bigint THEN w.headers END AS headers,
       w.priority,
       w.version
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k (queue, group_id, jobs, n)
CROSS JOIN LATERAL (SELECT r.job
                    FROM pgfifo.queue_groups r
                    WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.session = $5) g
CROSS JOIN LATERAL (
    SELECT b.*, row_number() OVER upto AS m,
           sum(octet_length(b.payload) + coalesce(octet_length(b.headers::text), 0)) OVER upto AS bytes
    FROM (SELECT j.id, j.payload, j.headers, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.priority,
                 j.ctid AS place, j.xmin AS version
          FROM pgfifo.jobs j
          WHERE j.queue = k.queue AND j.group_id = k.group_id AND j.id > g.job
          ORDER BY j.queue, j.group_id, j.id
          LIMIT k.jobs) b
    WINDOW upto AS (ORDER BY b.id ROWS UNBOUNDED PRECEDING)) w
ORDER BY k.n, w.id
