-- Moves the jobs that wait to another queue or group, behind what is there: under new ids, in the order of their old
-- ones, with their payloads, headers, times, priorities and failures, and their attempts to begin anew. A row for each
-- group that they are in then: how many there are, the lowest new id, and the transaction's id.
--
-- $1 queue, $2 group id (NULL: the whole queue), $3 queue to move to, $4 group id to move to (NULL: each job to the one
-- that it has), $5 whether in the order of commits, as enqueue.sql has it. What is there already stays as it is.
--
-- It passes over what somebody has locked: a running job has its row locked, those behind it in a batch have not, and
-- succeed_batch.sql finds that they are gone. It also passes over one that this very transaction runs, or a session:
-- see purge.sql.
--
-- If a job that had a time is moved, a walk is requested, as in purge.sql.
--
-- Ids are drawn after the transaction has its own: the trigger draw_after_xid comes before the first row. If a trigger
-- of the user's keeps rows from being made, it is an error (of a text that is no boolean).
WITH locked AS MATERIALIZED (
    SELECT j.group_id, j.id, coalesce($4::text, j.group_id) AS to_group
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND ($2::text IS NULL OR j.group_id = $2)
      AND NOT (j.queue = $3::text AND j.group_id = coalesce($4::text, j.group_id))
      AND (j.xmax = pg_current_xact_id_if_assigned()::xid AND pgfifo.runs_here(j.queue, j.group_id, j.xmax)) IS NOT TRUE
      AND CASE WHEN (SELECT q.lease IS NOT NULL FROM pgfifo.queues q WHERE q.queue = $1)
               THEN (SELECT pgfifo.lives(g.session) FROM pgfifo.queue_groups g
                     WHERE g.queue = j.queue AND g.group_id = j.group_id AND g.job = j.id)
          END IS NOT TRUE
    FOR UPDATE SKIP LOCKED
), held AS MATERIALIZED ( -- what sessions run, asked after the locks
    SELECT pgfifo.held_by_sessions($1, $2) AS id FROM locked HAVING pg_catalog.count(*) > 0
), waiting AS (
    SELECT l.group_id, l.id, l.to_group FROM locked l WHERE l.id NOT IN (SELECT held.id FROM held)
), turn AS ( -- the locks are counted, so that all of them are taken before the first id is drawn
    SELECT pg_catalog.count(pg_advisory_xact_lock(k.hash)) AS locks
    FROM (SELECT DISTINCT hashtextextended('pgfifo ' || $3::text || '/' || w.to_group, length($3::text)::bigint)
          FROM waiting w
          WHERE $5::boolean
          ORDER BY 1) AS k (hash)
), gone AS (
    DELETE FROM pgfifo.jobs j USING waiting w
    WHERE j.queue = $1 AND j.group_id = w.group_id AND j.id = w.id AND (SELECT turn.locks FROM turn) >= 0
    RETURNING j.*, w.to_group
), moved AS (
    INSERT INTO pgfifo.jobs (queue, group_id, payload, headers, run_at, max_attempts, enqueued_at, failures, priority)
    SELECT $3::text, g.to_group, g.payload, g.headers, g.run_at, g.max_attempts, g.enqueued_at, g.failures, g.priority
    FROM gone g
    ORDER BY g.id
    RETURNING group_id, id
), request AS (
    SELECT pg_catalog.nextval('pgfifo.walk_requests'::pg_catalog.regclass)
    FROM gone
    HAVING pg_catalog.count(gone.run_at) > 0
)
SELECT m.group_id, pg_catalog.count(*) AS jobs, min(m.id) AS first, pg_current_xact_id()::text::bigint AS xid
FROM moved m
WHERE (SELECT CASE WHEN g.jobs = n.jobs THEN (SELECT pg_catalog.count(*) FROM request) >= 0
                   ELSE ('pgfifo: ' || n.jobs::text || ' jobs made of ' || g.jobs::text)::boolean
              END
       FROM (SELECT pg_catalog.count(*) AS jobs FROM gone) g, (SELECT pg_catalog.count(*) AS jobs FROM moved) n)
GROUP BY m.group_id
