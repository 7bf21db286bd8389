-- Lists groups that have jobs, in the order of their keys, with what is known of their heads. For people: takes no
-- lock, and may be stale when it arrives.
--
-- ?0 queue ('': all), ?1 and ?2 the key to start behind, ?3 limit, ?4 count at most so many jobs a group,
-- ?5 only held groups, ?6 only paused groups, ?7 group id ('': all).
--
-- The holder is the session whose transaction has the head locked. PostgreSQL shows its pid and application_name to
-- every role; its address, and since when, only to members of the holder's role and of pg_read_all_stats.
WITH RECURSIVE walk AS (
    (SELECT j.queue, j.group_id, j.id, j.run_at, j.enqueued_at, j.attempts, j.xmax AS xid
     FROM pgfifo.jobs j
     WHERE (j.queue, j.group_id) > (?1, ?2) AND (?0 = '' OR j.queue = ?0) AND (?7 = '' OR j.group_id = ?7)
     ORDER BY j.queue, j.group_id, j.id
     LIMIT 1)
    UNION ALL
    SELECT next.*
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.queue, j.group_id, j.id, j.run_at, j.enqueued_at, j.attempts, j.xmax
        FROM pgfifo.jobs j
        WHERE (j.queue, j.group_id) > (walk.queue, walk.group_id)
          AND (?0 = '' OR j.queue = ?0) AND (?7 = '' OR j.group_id = ?7)
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) next
)
SELECT walk.queue, walk.group_id, walk.id AS head_id, walk.attempts, walk.enqueued_at AS oldest_at,
       CASE WHEN walk.run_at > statement_timestamp()
            THEN least(walk.run_at, timestamptz '9999-12-31 UTC')
       END AS due_at,
       (SELECT count(*) FROM (SELECT FROM pgfifo.jobs c
                              WHERE c.queue = walk.queue AND c.group_id = walk.group_id LIMIT ?4) few) AS queued,
       p.queue IS NOT NULL AS paused,
       coalesce(p.reason, '') AS pause_reason,
       a.pid IS NOT NULL AS held, coalesce(a.pid, 0) AS pid, coalesce(a.application_name, '') AS application_name,
       coalesce(host(a.client_addr), '') AS client_addr, a.xact_start AS held_since
FROM walk
LEFT JOIN LATERAL (SELECT p.queue, p.reason FROM pgfifo.pauses p
                   WHERE p.queue = walk.queue AND p.group_id IN ('', walk.group_id)
                   ORDER BY p.group_id LIMIT 1) p ON true
LEFT JOIN pg_stat_activity a ON walk.xid <> '0'::xid AND a.backend_xid = walk.xid
WHERE (NOT ?5 OR a.pid IS NOT NULL) AND (NOT ?6 OR p.queue IS NOT NULL)
LIMIT ?3
