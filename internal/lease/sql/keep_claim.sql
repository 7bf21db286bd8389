-- Claims the heads of those groups that this transaction has locked with keep_lock.sql, for a session that has them
-- from its commit on, without a lock: the group's row says so.
--
--   $1 queues      $2 group ids      $3 floors       of the groups, pairwise; no group twice
--   $4 how many bytes the payloads and headers may have together. The first head comes whatever its size. One that is
--      beyond that comes without its payload, and is not claimed
--   $5 the session's number
--   $6 whether the claim has a slot, pairwise. If not, the mark of a queue that has a limit stops it: its worker has
--      not heard of the limit
--   $7 whether a suspect may be claimed, pairwise
--
-- For each group it is claim_many.sql, and the same argument holds: the row was locked before this snapshot was taken.
-- That we have the lock does not say that the group was free: keep_lock.sql also locks a row that has got a session
-- since its snapshot, and only leaves it out of its answer. So it is looked at again.
-- Nobody else claims the group while its row names a session: lock.sql and keep_lock.sql look at that in the row that
-- they lock, also after the wait of another transaction for it. When the session dies, the row is freed (reclaim.sql),
-- and its attempt is counted.
--
-- Why a former holder completes nothing: to settle its job it must find its token in the group's row, which it locks
-- (keep_take.sql). Each claim writes another one, and a claim and a former holder cannot have the row locked together.
--
-- suspect says that the job may be what has killed its workers: the last two attempts died with them. One is enough for
-- claim.sql. Here it would suspect all: with one session thousands of jobs are lost, and nearly all have killed nobody.
--
-- A head that is not to run now, or a suspect that is not to be claimed, is told of, and nobody has its group then,
-- unless an attempt of it is to be counted.
-- Tokens are drawn while the row is locked, so they grow with each claim of a group, and with those of fence.sql, whose
-- sequence it is.
WITH head AS MATERIALIZED (
    SELECT k.n, k.queue, k.group_id, k.suspect_allowed, claim.*,
           sum(claim.size) OVER upto <= $4::bigint OR count(*) OVER upto = 1 AS sent
    FROM unnest($1::text[], $2::text[], $3::bigint[], $6::boolean[], $7::boolean[])
         WITH ORDINALITY AS k (queue, group_id, floor, slotted, suspect_allowed, n)
    CROSS JOIN LATERAL (
        SELECT pg_catalog.array_agg(h.ctid) AS two
        FROM (SELECT h.ctid
              FROM pgfifo.jobs h
              WHERE h.queue = k.queue AND h.group_id = k.group_id AND h.id > k.floor
              ORDER BY h.queue, h.group_id, h.id
              LIMIT 2) h) top
    CROSS JOIN LATERAL (
        SELECT j.id, j.payload, j.headers, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.priority,
               octet_length(j.payload) + coalesce(octet_length(j.headers::text), 0) AS size,
               statement_timestamp() AS now,
               j.ctid AS place,
               coalesce(j.attempts > 1 AND j.failures -> -1 ->> 'kind' = 'lost'
                        AND j.failures -> -2 ->> 'kind' = 'lost', false) AS suspect,
               EXISTS (SELECT FROM pgfifo.attempt_marks m
                       WHERE m.queue = k.queue AND m.group_id = k.group_id AND m.id = j.id
                         AND m.attempt = j.attempts + 1) AS marked,
               pg_current_xact_id() AS own_xid,
               pg_snapshot_xmin(pg_current_snapshot()) AS oldest_xid,
               EXISTS (SELECT FROM pgfifo.pauses p
                       WHERE p.group_id IN ('', k.group_id) AND p.queue = k.queue
                         AND NOT (p.limited AND k.slotted)) AS paused,
               top.two[2] IS NOT NULL AS more
        FROM pgfifo.jobs j
        WHERE j.ctid = top.two[1] AND j.queue = k.queue AND j.group_id = k.group_id
          AND (SELECT g.xmax FROM pgfifo.queue_groups g
               WHERE g.queue = k.queue AND g.group_id = k.group_id AND g.session IS NULL)
              = pg_current_xact_id_if_assigned()::xid
        FOR NO KEY UPDATE SKIP LOCKED) claim
    WINDOW upto AS (ORDER BY k.n ROWS UNBOUNDED PRECEDING)
), held AS (
    UPDATE pgfifo.queue_groups g
    SET session = $5, token = pg_catalog.nextval('pgfifo.fences_token_seq'), job = h.id, attempt = h.attempts + 1,
        since = statement_timestamp()
    FROM head h
    WHERE g.queue = h.queue AND g.group_id = h.group_id AND h.sent
      AND (h.marked OR NOT h.paused AND coalesce(h.run_at, '-infinity') <= statement_timestamp()
                       AND (h.suspect_allowed OR NOT h.suspect))
    RETURNING h.n, g.token
)
SELECT h.n::integer, h.id,
       CASE WHEN h.sent THEN h.payload END AS payload,
       h.attempts, h.max_attempts, h.enqueued_at, h.run_at, h.now, h.place, h.marked,
       CASE WHEN h.sent THEN h.headers END AS headers,
       h.priority, '0'::xid AS job_xid, h.suspect, h.own_xid, h.oldest_xid, h.paused, h.more,
       coalesce((SELECT held.token FROM held WHERE held.n = h.n), 0) AS token
FROM head h
