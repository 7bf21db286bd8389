-- Claims the head of the group that this transaction has locked with lock.sql, or returns nothing.
--
-- $1 queue, $2 group id, $3 floor: jobs of the group up to this id are known to be finished (0: none).
--
-- Why it is the right head: whoever held the group before had ended when its row was locked, and this statement's
-- snapshot is newer than that lock. So it sees all that they did, and every lower id that was committed before. Nobody
-- else can work a lower id that is committed later, because the group is ours. Nothing filters the head: it is the
-- lowest id, whatever its state.
--
-- The last condition is true if and only if the group is locked: nothing else gives this transaction an id. It is
-- evaluated once, before anything is read, so a claim that has missed the group locks nothing.
--
-- SKIP LOCKED: an operator may have the job's row. Then the claim misses. It never waits, and a later job never takes
-- the head's place: the row is named by its ctid. If it was changed since the snapshot was taken, the claim misses as
-- well. (Older minor releases of PostgreSQL claim it as it is by then, because they do not look at a ctid again. So the
-- group is named, too: it may have been moved to another.)
--
-- All columns are computed below the lock, so job_xid is the transaction that locked the head before. See evidence.sql.
-- suspect says that the last attempt that was counted died with its worker, marked that another one has begun and was
-- not counted (mark.sql). own_xid is this transaction; all transactions before oldest_xid have ended, which floors need
-- (package schedule).
SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at,
       statement_timestamp() AS now,
       j.ctid,
       EXISTS (SELECT FROM pgfifo.attempt_marks m
               WHERE m.queue = $1 AND m.group_id = $2 AND m.id = j.id AND m.attempt = j.attempts + 1) AS marked,
       j.headers,
       j.priority,
       j.xmax AS job_xid,
       coalesce(j.attempts > 0 AND j.failures -> -1 ->> 'kind' = 'lost', false) AS suspect,
       pg_current_xact_id() AS own_xid,
       pg_snapshot_xmin(pg_current_snapshot()) AS oldest_xid,
       EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1) AS paused
FROM pgfifo.jobs j
WHERE j.ctid = (SELECT h.ctid
                FROM pgfifo.jobs h
                WHERE h.queue = $1 AND h.group_id = $2 AND h.id > $3
                ORDER BY h.queue, h.group_id, h.id
                LIMIT 1)
  AND j.queue = $1 AND j.group_id = $2
  AND pg_current_xact_id_if_assigned() IS NOT NULL
FOR NO KEY UPDATE SKIP LOCKED
