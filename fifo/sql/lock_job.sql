-- Locks a job that is to be changed in this transaction, and returns its row. No row: there is no such job; or it is
-- running, so its row is locked, and is not waited for; or this very transaction runs it; or a session does.
--
-- $1 queue, $2 group id, $3 id.
--
-- A job that a session runs has no lock, but its group's row says who runs it: the claim writes that before it unlocks
-- the job's row (internal/lease/sql/keep_claim.sql). So first the row is locked, then held asks who runs it, with a
-- snapshot that is newer than the lock. A job that runs already is passed over before the lock: its worker would have
-- to wait for this transaction.
WITH locked AS MATERIALIZED (
    SELECT j.*
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3
      AND (j.xmax = pg_current_xact_id_if_assigned()::xid AND pgfifo.runs_here(j.queue, j.group_id, j.xmax)) IS NOT TRUE
      AND CASE WHEN (SELECT q.lease IS NOT NULL FROM pgfifo.queues q WHERE q.queue = $1)
               THEN (SELECT pgfifo.lives(g.session) FROM pgfifo.queue_groups g
                     WHERE g.queue = j.queue AND g.group_id = j.group_id AND g.job = j.id)
          END IS NOT TRUE
    FOR NO KEY UPDATE SKIP LOCKED
), held AS MATERIALIZED ( -- what sessions run, asked after the locks
    SELECT pgfifo.held_by_sessions($1, $2) AS id FROM locked HAVING pg_catalog.count(*) > 0
)
SELECT l.*
FROM locked l
WHERE l.id NOT IN (SELECT held.id FROM held)
