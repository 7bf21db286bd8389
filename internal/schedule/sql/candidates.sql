-- Lists the heads of up to $3 groups of a queue that have jobs, in the order of their ids from behind group $2.
--
-- $1 queue, $2 group id to start behind ('': at the beginning), $3 how many groups to visit.
--
-- It takes no lock and may be stale when it arrives: a hint, which claim.sql proves or refutes. It is
--     SELECT DISTINCT ON (queue, group_id) ... FROM jobs WHERE queue = $1 AND group_id > $2
--     ORDER BY queue, group_id, id
-- read by skipping from group to group in the primary key: one index probe a group, whatever the backlog, however
-- many groups are idle. Readiness is reported, never filtered here: a head that is not due holds its group.
-- It ends with heads.sql.
WITH RECURSIVE walk AS (
    (SELECT $1::text AS queue, j.group_id, j.id, j.run_at, j.xmax AS xid, j.priority, 1 AS n
     FROM pgfifo.jobs j
     WHERE j.queue = $1 AND j.group_id > $2
     ORDER BY j.queue, j.group_id, j.id
     LIMIT 1)
    UNION ALL
    SELECT walk.queue, next.group_id, next.id, next.run_at, next.xmax, next.priority, walk.n + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.group_id, j.id, j.run_at, j.xmax, j.priority
        FROM pgfifo.jobs j
        WHERE j.queue = $1 AND j.group_id > walk.group_id
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) next
    WHERE walk.n < $3
)
