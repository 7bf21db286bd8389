-- Claims one group, as claim.sql does, together with the jobs behind its head; or nothing.
--
-- $1 queue, $2 group id, $3 floor, $4 how many jobs, the head included.
--
-- The group's row and the head's are locked, and what claim.sql says of them holds. The jobs behind the head are not locked:
-- the group's row says whose they are, and who settles them counts the rows.
--
-- Why one snapshot is enough for all of them: between it and the locks somebody else may have worked the group. If they
-- finished the head or failed with it, its row is gone or has a newer version, and this misses. If they gave it back, they may
-- all the same have recorded what became of a job behind it (see mend in fifo). Rows behind the head are read after the locks,
-- so that shows in xid, the row's xmax: unless that is before the snapshot's xmin, the worker leaves that job and all behind
-- it. A lower id that is committed after the snapshot was committed after all jobs in it, and is worked next.
--
-- The columns of the claim are in the head's row, the first, and null in the others. If they are null there too, the head's row
-- was read again (servers differ), and is not what the snapshot shows of it: that is a miss.
--
-- few is read as far as it is asked: one row between the two locks, the others after them. LEFT JOIN: so that it cannot come first,
-- and the claim be made once for each of its rows.
WITH few AS MATERIALIZED (
    SELECT w.id, w.payload, w.attempts, w.max_attempts, w.enqueued_at, w.run_at, w.ctid, w.xmax AS xid
    FROM pgfifo.jobs w
    WHERE w.queue = $1 AND w.group_id = $2 AND w.id > $3
    ORDER BY w.queue, w.group_id, w.id
    LIMIT $4
)
SELECT few.id,
       few.payload,
       few.attempts,
       few.max_attempts,
       few.enqueued_at,
       few.run_at,
       CASE WHEN few.run_at IS NOT NULL THEN statement_timestamp() END AS now,
       few.ctid,
       few.xid,
       CASE WHEN few.ctid = claim.ctid THEN claim.job_xid END AS job_xid,
       CASE WHEN few.ctid = claim.ctid THEN claim.group_xid END AS group_xid,
       CASE WHEN few.ctid = claim.ctid THEN pg_current_xact_id() END AS own_xid,
       CASE WHEN few.ctid = claim.ctid THEN pg_current_snapshot() END AS snapshot
       , CASE WHEN few.ctid = claim.ctid THEN EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1) END AS paused -- known
FROM (SELECT g.xmax AS xid
      FROM pgfifo.queue_groups g
      WHERE g.queue = $1 AND g.group_id = $2
      FOR NO KEY UPDATE SKIP LOCKED) g
CROSS JOIN LATERAL (SELECT j.ctid, j.xmax AS job_xid, g.xid AS group_xid
                    FROM pgfifo.jobs j
                    WHERE j.ctid = (SELECT few.ctid FROM few LIMIT 1)
                    FOR NO KEY UPDATE SKIP LOCKED) claim
LEFT JOIN few ON true
