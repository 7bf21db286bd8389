-- Deletes the jobs that wait, and tells how many those were. It passes over what somebody has locked: a running job
-- has its row locked, those behind it in a batch have not. A group that one of them has blocked is free.
--
-- $1 queue, $2 group id (NULL: the whole queue).
WITH waiting AS (
    SELECT j.queue, j.group_id, j.id
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND ($2::text IS NULL OR j.group_id = $2)
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM pgfifo.jobs j USING waiting w
    WHERE j.queue = w.queue AND j.group_id = w.group_id AND j.id = w.id
    RETURNING j.queue, j.group_id, j.id
), free AS ( -- what they have blocked
    DELETE FROM pgfifo.pauses p USING gone g
    WHERE p.queue = g.queue AND p.group_id = g.group_id AND p.job = g.id AND NOT p.by_hand
), paused AS (
    UPDATE pgfifo.pauses p SET job = NULL
    FROM gone g
    WHERE p.queue = g.queue AND p.group_id = g.group_id AND p.job = g.id AND p.by_hand
)
SELECT pg_catalog.count(*) FROM gone
