-- The claim that a lane sends when it knows that nothing is paused: internal/lease/sql/claim.sql without what is known.
--
-- $1 queue, $2 group id, $3 floor.
SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, statement_timestamp() AS now,
       j.ctid, j.job_xid, j.group_xid, pg_current_xact_id() AS own_xid, pg_current_snapshot() AS snapshot
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
