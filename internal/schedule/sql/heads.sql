-- What is told of each group's head that a walk has found: the end of candidates.sql, candidates_adjacent.sql,
-- groups.sql and firsts.sql, whose walk has (queue, group_id, id, run_at, xid, priority), xid being the head's xmax.
--
-- holder is who runs the group: the transaction that has the head locked, if it is still in progress, or, as a negative
-- number, the session that has the group and lives (internal/lease/sql/keep_claim.sql). A transaction that is newer
-- than all that have ended is beyond the snapshot, where pg_xact_status does not go; pg_locks tells it from an id that
-- is none. due_in_us is less than 0 when the head is due, null run_at being 0. It is a year at most, or ten years ago:
-- a job may be parked until 'infinity', which is no number of microseconds. paused is -1 for a group that is paused,
-- and else null. But in a queue that has a limit it is how many jobs of a group may run at once there, or 0 if only the
-- queue's are limited. session is that of the group's row, or 0; null says that the group has no row yet: ensure.sql
-- makes it. If there is a session and no holder, it has died with the group: reclaim.sql.
--
-- The look-ups are scalar sub-selects on whole keys: as joins, or hashed, a plan made while a table was empty would
-- read all of it for every group once it is not. IN is one of them only because group_id leads the key of pauses.
, head AS (
    SELECT DISTINCT ON (walk.queue, walk.group_id) walk.*,
           CASE WHEN walk.xid <> '0'::xid
                THEN now.next - 2147483648 + ((walk.xid::text::bigint - now.next + 2147483648) & 4294967295)
           END AS full_xid, now.next
    FROM walk, (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next OFFSET 0) now
    ORDER BY walk.queue, walk.group_id, walk.id
)
SELECT head.queue,
       head.group_id,
       head.id,
       CASE WHEN head.run_at IS NULL THEN 0
            ELSE ceil(extract(epoch FROM greatest(least(head.run_at, statement_timestamp() + interval '1 year'),
                                                  statement_timestamp() - interval '10 years')
                                         - statement_timestamp()) * 1000000.0)::bigint
       END AS due_in_us,
       CASE WHEN CASE WHEN head.full_xid BETWEEN 3 AND head.next - 1
                      THEN pg_xact_status(head.full_xid::text::xid8) = 'in progress'
                      WHEN head.full_xid >= head.next
                      THEN head.xid IN (SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid')
                 END
            THEN head.full_xid
            WHEN head.session > 0 AND pgfifo.lives(head.session) THEN -head.session
            ELSE 0
       END AS holder,
       CASE WHEN (SELECT true FROM pgfifo.pauses p ORDER BY p.group_id, p.queue LIMIT 1) -- once for all
            THEN (SELECT CASE WHEN NOT p.limited THEN -1
                              ELSE coalesce((SELECT q.group_limit FROM pgfifo.queues q
                                             WHERE q.queue = head.queue)::integer, 0)
                         END
                  FROM pgfifo.pauses p
                  WHERE p.group_id IN ('', head.group_id) AND p.queue = head.queue
                  ORDER BY p.limited LIMIT 1)
       END AS paused,
       head.session,
       coalesce(head.priority, 0) AS priority
FROM (SELECT h.*, (SELECT coalesce(g.session, 0) FROM pgfifo.queue_groups g
                   WHERE g.queue = h.queue AND g.group_id = h.group_id LIMIT 1) AS session
      FROM head h OFFSET 0) head
ORDER BY head.queue, head.group_id
