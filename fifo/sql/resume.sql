-- Undoes the pause of a group, or of a queue, and of nothing else. No row: it was not paused. The job that has blocked
-- the group has all its attempts again.
--
-- $1 queue, $2 group id ('': the queue). xid is the transaction's id. The job is locked before the pause, as
-- lock_job.sql does it. One that has blocked the group since this statement began is found with the pause, which is
-- deleted as it is.
WITH blocked AS (
    SELECT j.queue, j.group_id, j.id
    FROM pgfifo.pauses p
    JOIN pgfifo.jobs j ON j.queue = p.queue AND j.group_id = p.group_id AND j.id = p.job
    WHERE p.queue = $1 AND p.group_id = $2
    FOR UPDATE OF j
), gone AS (
    DELETE FROM pgfifo.pauses
    WHERE queue = $1 AND group_id = $2 AND NOT limited AND (SELECT pg_catalog.count(*) FROM blocked) >= 0
    RETURNING job
), anew AS (
    UPDATE pgfifo.jobs j SET attempts = 0
    FROM gone g
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = g.job
), marks AS ( -- of the same attempts
    DELETE FROM pgfifo.attempt_marks m USING gone g
    WHERE m.queue = $1 AND m.group_id = $2 AND m.id = g.job
)
SELECT pg_current_xact_id()::text::bigint AS xid FROM gone
