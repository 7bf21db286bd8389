-- Claims the heads of those groups that this transaction has locked with lock_many.sql.
--
-- $1 queue, $2 group ids, $3 floors, pairwise; no group twice; $4 how many bytes the payloads and headers may have
-- together. The first head comes whatever its size; of others the payload is not sent if it is beyond $4.
--
-- For each group it is claim.sql, and the same argument holds. A group's row says by its xmax whether it is ours, and
-- that no session has it (see lock.sql). Without that look a head could be locked here that belongs to somebody who has
-- just locked its group.
--
-- Whether there is more behind a head is read with it: in an index, the next entry costs nothing beside the first.
-- What is the same for all groups is looked up once: whether the queue is paused, and whether there is any pause at
-- all, which mostly there is not. Not so for marks: they come and go, and behind a snapshot that is held for long the
-- first one that is not dead may be far.
--
-- A group without a row in the answer was missed. If it is locked all the same, because it has no jobs any more, the
-- claim is made again without it: nobody else could work what is enqueued there meanwhile.
SELECT c.n, c.id,
       CASE WHEN c.bytes <= $4::bigint OR c.bytes = c.size THEN c.payload END AS payload,
       c.attempts, c.max_attempts, c.enqueued_at, c.run_at, c.now, c.ctid, c.marked,
       CASE WHEN c.bytes <= $4::bigint OR c.bytes = c.size THEN c.headers END AS headers,
       c.priority, c.job_xid, c.suspect, c.own_xid, c.oldest_xid, c.paused, c.more
FROM (
    SELECT k.n::integer, claim.*, sum(claim.size) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
    FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (group_id, floor, n)
    CROSS JOIN LATERAL (
        SELECT pg_catalog.array_agg(h.ctid) AS two
        FROM (SELECT h.ctid
              FROM pgfifo.jobs h
              WHERE h.queue = $1 AND h.group_id = k.group_id AND h.id > k.floor
              ORDER BY h.queue, h.group_id, h.id
              LIMIT 2) h) top
    CROSS JOIN LATERAL (
        SELECT j.id, j.payload, j.headers, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.priority,
               octet_length(j.payload) + coalesce(octet_length(j.headers::text), 0) AS size,
               statement_timestamp() AS now,
               j.ctid,
               j.xmax AS job_xid,
               coalesce(j.attempts > 0 AND j.failures -> -1 ->> 'kind' = 'lost', false) AS suspect,
               EXISTS (SELECT FROM pgfifo.attempt_marks m
                       WHERE m.queue = $1 AND m.group_id = k.group_id AND m.id = j.id
                         AND m.attempt = j.attempts + 1) AS marked,
               (SELECT pg_current_xact_id()) AS own_xid,
               (SELECT pg_snapshot_xmin(pg_current_snapshot())) AS oldest_xid,
               EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id = '' AND p.queue = $1)
               OR CASE WHEN (SELECT true FROM pgfifo.pauses p ORDER BY p.group_id, p.queue LIMIT 1)
                       THEN EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id = k.group_id AND p.queue = $1)
                       ELSE false
                  END AS paused,
               top.two[2] IS NOT NULL AS more
        FROM pgfifo.jobs j
        WHERE j.ctid = top.two[1] AND j.queue = $1 AND j.group_id = k.group_id
          AND (SELECT g.xmax FROM pgfifo.queue_groups g
               WHERE g.queue = $1 AND g.group_id = k.group_id AND g.session IS NULL)
              = pg_current_xact_id_if_assigned()::xid
        FOR NO KEY UPDATE SKIP LOCKED) claim
) c
