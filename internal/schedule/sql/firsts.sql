-- Lists up to $2 queues that have jobs, in the order of their names from behind queue $1, with what is known of the
-- head of each one's first group. For a log: it takes no lock, and may be stale when it arrives.
--
-- $1 queue to start behind ('': at the beginning), $2 how many queues to visit.
--
-- It skips from queue to queue in the primary key: one index probe a queue, whatever the backlog. So it tells nothing
-- of a queue's other groups.
--
-- waits_us is how long the head has been due, ten years at most. It is 0 if the head is not due yet or is paused, or if
-- some transaction has it locked, as that of a worker that runs it, or if a session that lives has the group
-- (internal/lease/sql/keep_claim.sql). seen says that the group has a row: a worker that handles the queue has looked
-- at it.
WITH RECURSIVE walk AS (
    (SELECT j.queue, j.group_id, j.id, j.run_at, j.enqueued_at, j.xmax AS xid, 1 AS n
     FROM pgfifo.jobs j
     WHERE j.queue > $1
     ORDER BY j.queue, j.group_id, j.id
     LIMIT 1)
    UNION ALL
    SELECT next.queue, next.group_id, next.id, next.run_at, next.enqueued_at, next.xmax, walk.n + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.queue, j.group_id, j.id, j.run_at, j.enqueued_at, j.xmax
        FROM pgfifo.jobs j
        WHERE j.queue > walk.queue
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) next
    WHERE walk.n < $2
), keepers AS MATERIALIZED ( -- the sessions that live, by the numbers of their locks
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS session
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.mode = 'ExclusiveLock' AND l.granted
      AND l.database = (SELECT own.datid FROM pg_stat_get_activity(pg_backend_pid()) own)
)
SELECT walk.queue, walk.group_id,
       CASE WHEN walk.run_at > statement_timestamp() THEN 0
            WHEN walk.xid <> '0'::xid
                 AND walk.xid IN (SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid') THEN 0
            WHEN (SELECT true FROM pgfifo.queue_groups g
                  WHERE g.queue = walk.queue AND g.group_id = walk.group_id AND g.session IS NOT NULL
                    AND g.session IN (SELECT k.session FROM keepers k) LIMIT 1) THEN 0
            WHEN (SELECT true FROM pgfifo.pauses p
                  WHERE p.group_id IN ('', walk.group_id) AND p.queue = walk.queue AND NOT p.limited LIMIT 1) THEN 0
            ELSE extract(epoch FROM statement_timestamp()
                                    - greatest(walk.run_at, walk.enqueued_at,
                                               statement_timestamp() - interval '10 years')) * 1000000.0
       END::bigint AS waits_us,
       (SELECT true FROM pgfifo.queue_groups g
        WHERE g.queue = walk.queue AND g.group_id = walk.group_id LIMIT 1) IS TRUE AS seen
FROM walk
ORDER BY walk.queue
