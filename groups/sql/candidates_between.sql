-- Lists the heads of the groups that have one of the first $5 jobs of a queue that lie between others: for each n, behind id
-- $3[n] of group $2[n], and before group $4[n].
--
-- $1 queue, $2 group ids, in order, $3 ids, $4 group ids, $5 how many jobs to read, of all gaps together.
--
-- It is candidates_adjacent.sql for a worker that knows most groups: it passes over those, and with them over their dead
-- entries, which an old snapshot may keep by the million. No rows: there are no jobs between.
WITH walk AS MATERIALIZED (
    SELECT found.*
    FROM unnest($2::text[], $3::bigint[], $4::text[]) WITH ORDINALITY AS gap (group_id, id, before, n)
    CROSS JOIN LATERAL (
        SELECT j.group_id, j.id, j.run_at, j.xmax AS xid
        FROM pgfifo.jobs j
        WHERE j.queue = $1 AND (j.group_id, j.id) > (gap.group_id, gap.id) AND j.group_id < gap.before
        ORDER BY j.queue, j.group_id, j.id
        LIMIT $5) found
    LIMIT $5
), head AS (
    SELECT DISTINCT ON (walk.group_id) walk.*,
           CASE WHEN walk.xid <> '0'::xid
                THEN now.next - 2147483648 + ((walk.xid::text::bigint - now.next + 2147483648) & 4294967295)
           END AS full_xid, now.next
    FROM walk, (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next OFFSET 0) now
    ORDER BY walk.group_id, walk.id
)
SELECT $1::text AS queue,
       head.group_id,
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
       (SELECT true FROM pgfifo.pauses p WHERE p.queue = $1 LIMIT 1) IS TRUE
           AND (SELECT true FROM pgfifo.pauses p WHERE p.group_id IN ('', head.group_id) AND p.queue = $1 LIMIT 1) IS TRUE AS paused,
       (SELECT true FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = head.group_id LIMIT 1) IS NULL AS missing
FROM head
ORDER BY head.group_id
