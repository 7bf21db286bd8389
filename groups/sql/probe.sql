-- Looks at the heads of named groups, as candidates.sql does at those of a queue: without locks, a hint. A group
-- without jobs has no row in the answer.
--
-- $1 queues, $2 group ids, pairwise.
SELECT k.queue,
       k.group_id,
       head.id,
       CASE WHEN head.run_at > statement_timestamp()
            THEN ceil(extract(epoch FROM least(head.run_at, statement_timestamp() + interval '1 year') - statement_timestamp()) * 1000000.0)::bigint
            ELSE 0
       END AS due_in_us,
       CASE WHEN CASE WHEN head.full_xid BETWEEN 3 AND head.next - 1
                      THEN pg_xact_status(head.full_xid::text::xid8) = 'in progress'
                      WHEN head.full_xid >= head.next
                      THEN head.xid IN (SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid')
                 END
            THEN head.full_xid
            ELSE 0
       END AS holder,
       (SELECT true FROM pgfifo.pauses p WHERE p.group_id IN ('', k.group_id) AND p.queue = k.queue LIMIT 1) IS TRUE AS paused,
       (SELECT true FROM pgfifo.queue_groups g WHERE g.queue = k.queue AND g.group_id = k.group_id LIMIT 1) IS NULL AS missing
FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next OFFSET 0) now
CROSS JOIN unnest($1::text[], $2::text[]) AS k (queue, group_id)
CROSS JOIN LATERAL (
    SELECT j.id, j.run_at, j.xmax AS xid,
           CASE WHEN j.xmax <> '0'::xid
                THEN now.next - 2147483648 + ((j.xmax::text::bigint - now.next + 2147483648) & 4294967295)
           END AS full_xid,
           now.next
    FROM pgfifo.jobs j
    WHERE j.queue = k.queue AND j.group_id = k.group_id
    ORDER BY j.queue, j.group_id, j.id
    LIMIT 1) head
