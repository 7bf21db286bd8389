-- Claims several groups of one queue and the job at the head of each, as claim.sql does with one.
--
-- $1 queue, $2 group ids, $3 floors, pairwise; no group twice.
--
-- For each group it is claim.sql, and the same argument holds: the rows of the answer are independent. A group without a
-- row in the answer was missed, and its row may be locked all the same: end the transaction at once, with COMMIT, and
-- claim the others again. Do so, too, if one of them has a group_xid that the snapshot does not know to have ended. The
-- snapshot is the same for all, so it is in the first group's row only: if that is missed, it is not needed. Nothing here
-- waits, so claims of many groups cannot deadlock either.
--
-- Each of the two sub-selects has a lock of its own, so that the planner takes it as it stands: as joins, a plan made while
-- the tables were empty would read all groups of the queue for each of them.
SELECT k.n::integer, claim.*
FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k (group_id, floor, n)
CROSS JOIN LATERAL (
    SELECT j.id,
           j.payload,
           j.attempts,
           j.max_attempts,
           j.enqueued_at,
           j.run_at,
           statement_timestamp() AS now,
           j.ctid,
           j.job_xid,
           j.group_xid,
           pg_current_xact_id() AS own_xid,
           CASE WHEN k.n = 1 THEN pg_current_snapshot() END AS snapshot,
           EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', k.group_id) AND p.queue = $1) AS paused,
           EXISTS (SELECT FROM pgfifo.jobs w WHERE w.queue = $1 AND w.group_id = k.group_id AND w.id > j.id) AS more
    FROM (SELECT g.xmax AS xid
          FROM pgfifo.queue_groups g
          WHERE g.queue = $1 AND g.group_id = k.group_id
          FOR NO KEY UPDATE SKIP LOCKED) g
    CROSS JOIN LATERAL (SELECT j.id, j.payload, j.attempts, j.max_attempts, j.enqueued_at, j.run_at, j.ctid,
                               j.xmax AS job_xid, g.xid AS group_xid
                        FROM pgfifo.jobs j
                        WHERE j.ctid = (SELECT h.ctid
                                        FROM pgfifo.jobs h
                                        WHERE h.queue = $1 AND h.group_id = k.group_id AND h.id > k.floor
                                        ORDER BY h.queue, h.group_id, h.id
                                        LIMIT 1)
                        FOR NO KEY UPDATE SKIP LOCKED) j) claim
