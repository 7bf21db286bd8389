-- Claims the job that this transaction has locked with lock_next.sql, if every job before it in its group runs, or
-- returns nothing.
--
-- $1 queue, $2 group id.
--
-- Why starts are in order: this is a new statement, so its snapshot is newer than the lock. It passes over the jobs
-- that are run, as lock_next.sql does, and claims the first one that is not if that is the one locked. A job that it
-- passes has a mark in this snapshot, and the transaction that the mark names is in progress now: so it was running
-- when the snapshot was taken, all of them at once. None of them is one that somebody has only looked at. A lower id
-- that is committed later is the next to start.
--
-- For the same reason it looks at the slot once more: the limit may have been lowered since it was locked, and then
-- others may run beside this one.
--
-- The job is locked, so what is read of it is what is there, and nobody else's claim of it is under way: a mark of the
-- attempt that would begin now is of one that died, unless the claim that it names has committed: then it came late,
-- and the attempt was given back. This is the only evidence. A slot need not be the dead one's, so there is no job_xid.
-- A claim that this server has never heard of, and of which pg_xact_status would be an error, is one of another server,
-- whose dump was restored here: it died there.
--
-- What claim.sql says of the other columns holds here. more says whether there are jobs behind this one.
SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at,
       statement_timestamp() AS now,
       j.ctid,
       EXISTS (SELECT FROM pgfifo.attempt_marks m
               WHERE m.queue = $1 AND m.group_id = $2 AND m.id = j.id AND m.attempt = j.attempts + 1
                 AND CASE WHEN m.xid >= pg_snapshot_xmax(pg_current_snapshot()) THEN true
                          ELSE pg_xact_status(m.xid) IS DISTINCT FROM 'committed'
                     END) AS marked,
       j.headers,
       j.priority,
       '0'::xid AS job_xid,
       coalesce(j.attempts > 0 AND j.failures -> -1 ->> 'kind' = 'lost', false) AS suspect,
       pg_current_xact_id() AS own_xid,
       pg_snapshot_xmin(pg_current_snapshot()) AS oldest_xid,
       EXISTS (SELECT FROM pgfifo.pauses p
               WHERE p.group_id IN ('', $2) AND p.queue = $1 AND NOT p.limited) AS paused,
       EXISTS (SELECT FROM pgfifo.jobs w WHERE w.queue = $1 AND w.group_id = $2 AND w.id > j.id) AS more
FROM pgfifo.jobs j
WHERE j.ctid = (SELECT h.ctid
                FROM pgfifo.jobs h
                WHERE h.queue = $1 AND h.group_id = $2
                  AND CASE WHEN h.xmax = '0'::xid THEN true
                           ELSE (SELECT CASE WHEN m.xid::xid = h.xmax THEN pg_xact_status(m.xid) = 'in progress' END
                                 FROM pgfifo.attempt_marks m
                                 WHERE m.queue = $1 AND m.group_id = $2 AND m.id = h.id) IS NOT TRUE
                      END
                ORDER BY h.queue, h.group_id, h.id
                LIMIT 1)
  AND j.xmax = pg_current_xact_id_if_assigned()::xid
  AND EXISTS (SELECT FROM pgfifo.queues q
              JOIN pgfifo.group_slots s ON s.queue = $1 AND s.group_id = $2 AND s.n <= q.group_limit
              WHERE q.queue = $1 AND s.xmax = pg_current_xact_id_if_assigned()::xid)
