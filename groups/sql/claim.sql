-- Claims one group and the job at its head, or nothing.
--
-- $1 queue, $2 group id, $3 floor: jobs of the group up to this id are known to be finished (0: none).
--
-- Locks: the group's row, and then the head's row, FOR NO KEY UPDATE, each named exactly; they are the lease, and last until
-- the transaction ends. SKIP LOCKED: it never waits, so claims cannot deadlock. READ COMMITTED only.
--
-- Why one statement is enough: the head is the lowest id of the group in this statement's snapshot, whatever its
-- state; nothing filters it. If another worker finished it since, its row is gone and this misses; if its attempt
-- failed, its row has a newer version, which is either locked and read again, with its new run_at, or missed (servers
-- differ). A later job is never taken in its place. After a miss (no row) the group's row may be locked all the same:
-- end the transaction at once, with COMMIT.
--
-- One thing the head's row does not show: that another worker has had the group since the snapshot, with a lower id that was
-- committed later still, and has failed with it. group_xid shows that, the transaction that locked the group before, read
-- just before it is locked here: unless the snapshot knows that it had ended, the claim is to be made again. Whoever fails in
-- between these two writes a new version of the row (fifo/sql/retry.sql). Then it is read again, and group_xid is our own,
-- which the snapshot does not know either.
--
-- The head is handed on as its ctid, which saves a descent of the index here and one in succeed.sql. It cannot come to
-- mean another row: vacuum leaves alone what this snapshot sees, and later what a running transaction might.
--
-- job_xid is the transaction that locked the head before. It is read when the group is locked already, so nobody can have
-- worked the head since; and below the locking clause (above it, it would be our own). If group_xid is the same, or later, it
-- is that of the last claim of this head: see evidence.sql. If it is earlier, or 0, somebody locked the job without the group,
-- an operator's rolled back DELETE say. If the row was read again it may be our own, which is no evidence either.
--
-- own_xid is the claim's transaction, and snapshot the one in which the head was chosen. All before its xmin have ended, which
-- tells the worker, some claims later, that nobody can commit a lower id any more: see groups/floor.go.
--
-- LATERAL, and a lock in each of the two, so that the group is locked before the head is looked at. Half the cost of this
-- statement is setting it up, so it has few nodes and plain columns; the columns marked "known" are left out when the worker
-- knows the answers (groups/known.go). The look-up in pauses is one node and whole keys, because group_id leads that table's key.
SELECT j.id,
       j.payload,
       j.attempts,
       j.max_attempts,
       j.enqueued_at,
       j.run_at,
       statement_timestamp() AS now,
       j.ctid,
       j.job_xid,
       j.group_xid,
       pg_current_xact_id() AS own_xid,
       pg_current_snapshot() AS snapshot
       , EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1) AS paused -- known
       , (SELECT count(*) FROM (SELECT FROM pgfifo.jobs w WHERE w.queue = $1 AND w.group_id = $2 AND w.id > $3 LIMIT 17) few) AS waiting -- known
FROM (SELECT g.xmax AS xid
      FROM pgfifo.queue_groups g
      WHERE g.queue = $1 AND g.group_id = $2
      FOR NO KEY UPDATE SKIP LOCKED) g
CROSS JOIN LATERAL (SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.ctid,
                           j.xmax AS job_xid, g.xid AS group_xid
                    FROM pgfifo.jobs j
                    WHERE j.ctid = (SELECT h.ctid
                                    FROM pgfifo.jobs h
                                    WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3
                                    ORDER BY h.queue, h.group_id, h.id
                                    LIMIT 1)
                    FOR NO KEY UPDATE SKIP LOCKED) j
