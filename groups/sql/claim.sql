-- Claims one group and the job at its head, or nothing.
--
-- $1 queue, $2 group id, $3 floor: jobs of the group up to this id are known to be finished (0: none).
--
-- Locks: the group's row and the head's row, FOR NO KEY UPDATE, both by exact key; they are the lease, and last until
-- the transaction ends. SKIP LOCKED: it never waits, so claims cannot deadlock. READ COMMITTED only.
--
-- Why one statement is enough: the head is the lowest id of the group in this statement's snapshot, whatever its
-- state; nothing filters it. If another worker finished it since, its row is gone and this misses; if its attempt
-- failed, the row is read again and comes back with its new run_at. A later job is never taken in its place.
-- After a miss (no row) the group's row may be locked all the same: end the transaction at once, with COMMIT.
--
-- last_xid is the transaction that claimed this head before: the one that locked both rows, read below the locking
-- clause (above it, it would be our own). 0 for a job that nobody has claimed since it was last written, and for one
-- that somebody else, an operator's rolled back DELETE say, had locked without the group. See evidence.sql.
WITH head AS MATERIALIZED (
    SELECT h.id, h.xmax AS last_xid
    FROM pgfifo.jobs h
    WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3
    ORDER BY h.queue, h.group_id, h.id
    LIMIT 2 -- the second row only tells that there is one
)
SELECT j.id,
       j.payload,
       j.attempts,
       coalesce(j.max_attempts, 0) AS max_attempts,
       j.enqueued_at,
       CASE WHEN j.run_at > statement_timestamp()
            THEN ceil(extract(epoch FROM least(j.run_at, statement_timestamp() + interval '1 year') - statement_timestamp()) * 1000000)::bigint
            ELSE 0
       END AS due_in_us,
       EXISTS (SELECT FROM pgfifo.pauses p WHERE p.queue = $1 AND p.group_id = ''
               UNION ALL
               SELECT FROM pgfifo.pauses p WHERE p.queue = $1 AND p.group_id = $2) AS paused,
       (SELECT count(*) > 1 FROM head) AS more,
       (SELECT CASE WHEN last_xid <> '0'::xid
                     AND last_xid = (SELECT xmax FROM pgfifo.queue_groups WHERE queue = $1 AND group_id = $2)
                    THEN last_xid ELSE '0'::xid END
        FROM head ORDER BY id LIMIT 1) AS last_xid
FROM pgfifo.queue_groups g, pgfifo.jobs j
WHERE g.queue = $1 AND g.group_id = $2
  AND j.queue = $1 AND j.group_id = $2 AND j.id = (SELECT min(id) FROM head)
FOR NO KEY UPDATE OF g, j SKIP LOCKED
