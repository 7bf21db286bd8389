-- Claims the head of the group that this transaction has locked with lock.sql, together with the jobs behind it, or
-- nothing.
--
-- $1 queue, $2 group id, $3 floor, $4 how many jobs, the head included, $5 how many bytes their payloads and headers
-- may have together; the head comes whatever its size.
--
-- What claim.sql says of the head holds here. The jobs behind it are not locked: the group's lock says whose they are,
-- and an operator may delete one all the same. So who settles them counts the rows (fifo/sql/succeed_batch.sql).
--
-- The head and those behind it are read once, and then the head's row is locked by its place. If it was changed since,
-- the claim misses. The second condition on the place is for older minor releases of PostgreSQL, which do not look at
-- the first again. No more of them is read than is wanted: a CTE is evaluated as far as it is asked for.
--
-- A head that is to run alone comes alone: one that has failed, that may be tried only once, or that was to run later.
-- A job behind the head may be marked, too: it was the head of a batch that died, and a lower id was committed since.
-- One job more than wanted is read, to know whether there is more. Its payload is not sent, nor are those beyond $5.
-- From job_xid on, what is true of the claim is in the head's row only, and NULL in the others: to send it with each of
-- 50 jobs makes the statement slower by a tenth.
WITH few AS MATERIALIZED (
    SELECT w.*,
           row_number() OVER upto AS n,
           sum(octet_length(w.payload) + coalesce(octet_length(w.headers::text), 0)) OVER upto AS bytes
    FROM (SELECT b.id, b.payload, b.headers, b.attempts, b.max_attempts, b.enqueued_at, b.run_at, b.priority, b.ctid
          FROM pgfifo.jobs b
          WHERE b.queue = $1 AND b.group_id = $2 AND b.id > $3
          ORDER BY b.queue, b.group_id, b.id
          LIMIT $4::bigint + 1) w
    WINDOW upto AS (ORDER BY w.id ROWS UNBOUNDED PRECEDING)
)
SELECT j.id,
       CASE WHEN j.n <= head.most AND (j.n = 1 OR j.bytes <= $5::bigint) THEN j.payload END AS payload,
       j.attempts, j.max_attempts, j.enqueued_at, j.run_at,
       CASE WHEN j.run_at IS NOT NULL THEN statement_timestamp() END AS now,
       j.ctid,
       head.marks AND EXISTS (SELECT FROM pgfifo.attempt_marks m
                              WHERE m.queue = $1 AND m.group_id = $2 AND m.id = j.id AND m.attempt = j.attempts + 1)
           AS marked,
       CASE WHEN j.n <= head.most AND (j.n = 1 OR j.bytes <= $5::bigint) THEN j.headers END AS headers,
       j.priority,
       CASE WHEN j.n = 1 THEN head.job_xid END AS job_xid,
       CASE WHEN j.n = 1 THEN head.suspect END AS suspect,
       CASE WHEN j.n = 1 THEN head.own_xid END AS own_xid,
       CASE WHEN j.n = 1 THEN head.oldest_xid END AS oldest_xid,
       CASE WHEN j.n = 1 THEN head.paused END AS paused
FROM (SELECT h.xmax AS job_xid,
             coalesce(h.attempts > 0 AND h.failures -> -1 ->> 'kind' = 'lost', false) AS suspect,
             EXISTS (SELECT FROM pgfifo.attempt_marks m WHERE m.queue = $1 AND m.group_id = $2) AS marks,
             pg_current_xact_id() AS own_xid,
             pg_snapshot_xmin(pg_current_snapshot()) AS oldest_xid,
             EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1) AS paused,
             CASE WHEN h.attempts > 0 OR h.max_attempts = 1 OR h.run_at IS NOT NULL THEN 1 ELSE $4::bigint END AS most
      FROM (SELECT few.ctid FROM few LIMIT 1) first
      CROSS JOIN pgfifo.jobs h
      WHERE h.ctid = first.ctid
        AND NOT h.ctid IS DISTINCT FROM first.ctid
        AND pg_current_xact_id_if_assigned() IS NOT NULL
      FOR NO KEY UPDATE OF h SKIP LOCKED) head
CROSS JOIN LATERAL (SELECT few.* FROM few LIMIT head.most + 1) j
