-- Lists groups that have jobs, in the order of their keys, with what is known of their heads. For people: takes no
-- lock, and may be stale when it arrives.
--
-- $1, $2, $3 the place (queue, group id, id) to start behind, $4 queue (NULL: all), $5 group id (NULL: all), $6 limit,
-- $7 how many jobs of a group to count at most, $8 only held groups, $9 only paused groups.
--
-- Each step of the walk is one descent of the index, whatever plan is made: it reads the next head, and ends if that is
-- outside the queue or the group.
--
-- The holder is the session whose transaction has the head locked. PostgreSQL shows its pid and application_name to
-- every role; its address, and since when, only to members of the holder's role and of pg_read_all_stats. A head that
-- is locked in a savepoint, or by a prepared transaction, is held by no session that can be found: xmax is in progress,
-- and nobody's backend_xid. Where xmax is a MultiXact nobody is found. It is widened as in
-- internal/lease/sql/evidence.sql, but with the next id to be given out: in a snapshot, xmax is the one behind the last
-- that has ended, and age counts on from there. That is read before the sessions are, so that each that has got its id
-- before is among them.
--
-- A head that a session runs without a lock (queue_groups.session) is held by that, since its claim, whoever has it
-- locked beside: the worker itself, when it settles the job. If the session runs another job of the group, because a
-- lower id was committed later, that one is held and not the head: the group is full.
WITH RECURSIVE walk AS (
    SELECT first.*, s.xmax::text::bigint + greatest(age(s.xmax::xid), 0) AS next_xid
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot()) AS xmax) s,
         (SELECT j.queue, j.group_id, j.id, j.run_at, j.enqueued_at, j.attempts, j.failures, j.xmax AS xid
          FROM pgfifo.jobs j
          WHERE (j.queue, j.group_id, j.id) > ($1, $2, $3)
          ORDER BY j.queue, j.group_id, j.id
          LIMIT 1) first
    WHERE ($4::text IS NULL OR first.queue = $4) AND ($5::text IS NULL OR first.group_id = $5)
    UNION ALL
    SELECT next.*, walk.next_xid
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.queue, j.group_id, j.id, j.run_at, j.enqueued_at, j.attempts, j.failures, j.xmax
        FROM pgfifo.jobs j
        WHERE (j.queue, j.group_id) > (walk.queue, walk.group_id)
        ORDER BY j.queue, j.group_id, j.id
        LIMIT 1) next
    WHERE ($4::text IS NULL OR next.queue = $4) AND ($5::text IS NULL OR next.group_id = $5)
), keepers AS MATERIALIZED (
    SELECT k.session, a.pid, a.application_name, a.client_addr
    FROM pgfifo.keepers k
    JOIN pg_stat_activity a ON a.pid = k.pid
), full_queue AS ( -- at its limit: a session in progress has each slot locked, or one that lives has it
    SELECT q.queue
    FROM pgfifo.queues q
    JOIN pgfifo.slots s ON s.queue = q.queue AND s.n <= q.max_running
    LEFT JOIN pg_stat_activity a ON a.backend_xid = s.xmax
    WHERE ($4::text IS NULL OR q.queue = $4)
      AND (a.pid IS NOT NULL OR s.session IS NOT NULL AND s.session IN (SELECT k.session FROM keepers k))
    GROUP BY q.queue, q.max_running
    HAVING count(*) >= q.max_running
)
SELECT walk.queue, walk.group_id, walk.id AS head_id, walk.attempts,
       pgfifo.in_range(walk.enqueued_at) AS oldest_at,
       CASE WHEN walk.run_at > statement_timestamp() THEN pgfifo.in_range(walk.run_at) END AS due_at,
       (SELECT count(*) FROM (SELECT FROM pgfifo.jobs c
                              WHERE c.queue = walk.queue AND c.group_id = walk.group_id LIMIT $7) few) AS queued,
       p.queue IS NOT NULL AS paused,
       coalesce(p.reason, '') AS pause_reason, coalesce(p.group_id = '', false) AS queue_paused,
       hold.held, coalesce(hold.pid, 0) AS pid, coalesce(hold.application_name, '') AS application_name,
       coalesce(host(hold.client_addr), '') AS client_addr, hold.since AS held_since,
       CASE WHEN hold.held THEN hold.since
            WHEN p.queue IS NOT NULL THEN p.since
            WHEN walk.run_at > statement_timestamp() THEN NULL
            ELSE pgfifo.in_range(greatest(walk.run_at, walk.enqueued_at))
       END AS since,
       coalesce(p.job, 0) AS pause_job,
       walk.failures -> -1 AS last_failure,
       walk.queue IN (SELECT f.queue FROM full_queue f) AS over_limit,
       coalesce(kept.job <> walk.id, false)
       OR (SELECT q.group_limit > 0
                  AND q.group_limit <= (SELECT count(*)
                                        FROM pgfifo.group_slots s
                                        JOIN pg_stat_activity r ON r.backend_xid = s.xmax
                                        WHERE s.queue = walk.queue AND s.group_id = walk.group_id)
           FROM pgfifo.queues q WHERE q.queue = walk.queue) IS TRUE AS group_full
FROM walk
LEFT JOIN LATERAL (SELECT p.queue, p.group_id, p.reason, p.job, pgfifo.in_range(p.paused_at) AS since
                   FROM pgfifo.pauses p
                   WHERE p.queue = walk.queue AND p.group_id IN ('', walk.group_id) AND NOT p.limited
                   ORDER BY p.job IS NULL, p.group_id LIMIT 1) p ON true
LEFT JOIN LATERAL (SELECT g.job, pgfifo.in_range(g.since) AS since, k.pid, k.application_name, k.client_addr
                   FROM pgfifo.queue_groups g
                   JOIN keepers k ON k.session = g.session
                   WHERE g.queue = walk.queue AND g.group_id = walk.group_id
                   LIMIT 1) kept ON true
LEFT JOIN pg_stat_activity a ON walk.xid <> '0'::xid AND a.backend_xid = walk.xid
CROSS JOIN LATERAL (
    SELECT true AS held, kept.pid, kept.application_name, kept.client_addr, kept.since
    WHERE kept.job = walk.id
    UNION ALL
    SELECT CASE WHEN a.pid IS NOT NULL THEN true
                WHEN walk.xid <> '0'::xid AND w.ago BETWEEN 1 AND walk.next_xid - 3
                THEN pg_xact_status((walk.next_xid - w.ago)::text::xid8) = 'in progress'
           END IS TRUE,
           a.pid, a.application_name, a.client_addr, a.xact_start
    FROM (SELECT (walk.next_xid - walk.xid::text::bigint) & 4294967295 AS ago) w
    WHERE (kept.job = walk.id) IS NOT TRUE) hold
WHERE (NOT $8::boolean OR hold.held) AND (NOT $9::boolean OR p.queue IS NOT NULL)
LIMIT $6
