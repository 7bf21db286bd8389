-- Pauses a group, or a queue, and tells whether it was paused already, the transaction's id, when the pause began, in
-- microseconds, and how many jobs it has. What is paused already gets the new reason, and keeps its time: it may be
-- later than this statement's, of a pause that this one has waited for, or of a clock that was set back.
--
-- $1 queue, $2 group id ('': the queue), $3 reason, $4 how many jobs to count at most. It locks no row of a job or
-- group, so it never waits for a running job. Each claim looks here, so none that begins after the commit starts a job.
WITH pause AS (
    INSERT INTO pgfifo.pauses (queue, group_id, reason)
    VALUES ($1, $2, $3)
    ON CONFLICT (queue, group_id, limited) DO UPDATE SET reason = EXCLUDED.reason, by_hand = true
    RETURNING paused_at <> statement_timestamp() AS was, paused_at
)
SELECT pause.was, pg_current_xact_id()::text::bigint AS xid,
       (extract(epoch FROM CASE WHEN isfinite(pause.paused_at) THEN pause.paused_at ELSE statement_timestamp() END)
        * 1000000::numeric)::bigint AS at,
       (SELECT pg_catalog.count(*) FROM (SELECT FROM pgfifo.jobs j
                                         WHERE j.queue = $1 AND ($2::text = '' OR j.group_id = $2)
                                         LIMIT $4) few) AS jobs
FROM pause
