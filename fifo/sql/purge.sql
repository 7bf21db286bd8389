-- Deletes the jobs that wait, and tells how many those were. xid is the transaction's id. It passes over what somebody
-- has locked: a running job has its row locked, those behind it in a batch have not. It also passes over one that this
-- very transaction runs, or a session: see lock_job.sql. One that a session has claimed since this statement began
-- stays, and is locked until the transaction ends.
--
-- If a job that had a time is deleted, one that stays may have been due behind it for a while: a walk is requested
-- (take_out.sql).
--
-- $1 queue, $2 group id (NULL: the whole queue).
WITH locked AS MATERIALIZED (
    SELECT j.queue, j.group_id, j.id
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND ($2::text IS NULL OR j.group_id = $2)
      AND (j.xmax = pg_current_xact_id_if_assigned()::xid AND pgfifo.runs_here(j.queue, j.group_id, j.xmax)) IS NOT TRUE
      AND CASE WHEN (SELECT q.lease IS NOT NULL FROM pgfifo.queues q WHERE q.queue = $1)
               THEN (SELECT pgfifo.lives(g.session) FROM pgfifo.queue_groups g
                     WHERE g.queue = j.queue AND g.group_id = j.group_id AND g.job = j.id)
          END IS NOT TRUE
    FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED ( -- what sessions run, asked after the locks
    SELECT pgfifo.held_by_sessions($1, $2) AS id FROM locked HAVING pg_catalog.count(*) > 0
), waiting AS (
    SELECT l.queue, l.group_id, l.id FROM locked l WHERE l.id NOT IN (SELECT held.id FROM held)
), gone AS (
    DELETE FROM pgfifo.jobs j USING waiting w
    WHERE j.queue = w.queue AND j.group_id = w.group_id AND j.id = w.id
    RETURNING j.run_at
), request AS (
    SELECT pg_catalog.nextval('pgfifo.walk_requests'::pg_catalog.regclass)
    FROM gone
    HAVING pg_catalog.count(gone.run_at) > 0
)
SELECT pg_catalog.count(*) AS jobs, pg_current_xact_id()::text::bigint AS xid
FROM gone
HAVING (SELECT pg_catalog.count(*) FROM request) >= 0
