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
-- job_xid and group_xid are the transactions that locked the two rows before, as the scans below the locking clause read
-- them (above it, they would be our own). If the group's is the same, or later, job_xid is that of the last claim of this
-- head: see evidence.sql. If it is earlier, or 0, somebody locked the job without the group, an operator's rolled back
-- DELETE say. If the row was read again they may be our own, which is no evidence either.
--
-- Half the cost of this statement is setting it up, so it has few nodes and plain columns. The look-up in pauses is one
-- node and whole keys, because group_id leads that table's key; the head is a scalar, because as a join its id would
-- drop out of the index condition of a plan made while the table was empty.
WITH head AS MATERIALIZED (
    SELECT min(few.id) AS id, count(*) > 1 AS more -- the second row only tells that there is one
    FROM (SELECT h.id
          FROM pgfifo.jobs h
          WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3
          ORDER BY h.queue, h.group_id, h.id
          LIMIT 2) few
)
SELECT j.id,
       j.payload,
       j.attempts,
       j.max_attempts,
       j.enqueued_at,
       j.run_at,
       statement_timestamp() AS now,
       EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1) AS paused,
       (SELECT more FROM head) AS more,
       j.xmax AS job_xid,
       g.xmax AS group_xid
FROM pgfifo.queue_groups g, pgfifo.jobs j
WHERE g.queue = $1 AND g.group_id = $2
  AND j.queue = $1 AND j.group_id = $2 AND j.id = (SELECT id FROM head)
FOR NO KEY UPDATE OF g, j SKIP LOCKED
