-- Lists the heads of up to $3 groups of a queue that have jobs, in the order of their ids from behind group $2.
--
-- $1 queue, $2 group id to start behind ('': at the beginning), $3 how many groups to visit.
--
-- It takes no lock and may be stale when it arrives: a hint, which claim.sql proves or refutes. It is
--     SELECT DISTINCT ON (queue, group_id) ... FROM jobs WHERE queue = $1 AND group_id > $2 ORDER BY queue, group_id, id
-- read by skipping from group to group in the primary key: one index probe a group, whatever the backlog, however
-- many groups are idle. Readiness is reported, never filtered here: a head that is not due holds its group.
--
-- holder is the transaction that has the head locked, if it is still in progress: some worker is running it. One that
-- is newer than all that have ended is beyond the snapshot, where pg_xact_status does not go; pg_locks tells it from an
-- id that is none.
-- due_in_us is a year at most: a job may be parked until 'infinity', which is no number of microseconds.
-- missing says that the group has no row yet; ensure.sql makes it.
--
-- The look-ups are scalar sub-selects on whole keys: as joins, or hashed, a plan made while a table was empty would
-- read all of it for every group once it is not. IN is one of them only because group_id leads the key of pauses.
WITH RECURSIVE walk AS (
    (SELECT j.group_id, j.id, j.run_at, j.xmax AS xid, 1 AS n
     FROM pgfifo.jobs j
     WHERE j.queue = $1 AND j.group_id > $2
     ORDER BY j.queue, j.group_id, j.id
     LIMIT 1)
    UNION ALL
    SELECT next.group_id, next.id, next.run_at, next.xmax, walk.n + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.group_id, j.id, j.run_at, j.xmax
        FROM pgfifo.jobs j
        WHERE j.queue = $1 AND j.group_id > walk.group_id
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) next
    WHERE walk.n < $3
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
