-- Deletes the jobs that wait, and tells how many those were. xid is the transaction's id. It passes over what somebody
-- has locked: a running job has its row locked, those behind it in a batch have not. So it does over one that this very
-- transaction runs.
--
-- $1 queue, $2 group id (NULL: the whole queue).
WITH waiting AS (
    SELECT j.queue, j.group_id, j.id
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND ($2::text IS NULL OR j.group_id = $2)
      AND (j.xmax = pg_current_xact_id_if_assigned()::xid AND pgfifo.runs_here(j.queue, j.group_id, j.xmax)) IS NOT TRUE
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM pgfifo.jobs j USING waiting w
    WHERE j.queue = w.queue AND j.group_id = w.group_id AND j.id = w.id
    RETURNING j.id
)
SELECT pg_catalog.count(*) AS jobs, pg_current_xact_id()::text::bigint AS xid FROM gone
