-- Frees groups whose session has died with them, and marks the attempts that it had begun: whoever claims their jobs
-- next counts them (internal/lease/sql/mark.sql).
--
-- $1 queues, $2 group ids, pairwise; no group twice.
--
-- It passes over a row that somebody has locked: the worker that has lost its session, and completes what it had. The
-- number of a dead session never comes again, so it stays dead. If the server forgets this in a crash it is done again,
-- so it does not wait for the disk.
--
-- An attempt of a job that was buried since, and redriven, is not marked: that job has all its attempts again. Nor is
-- one that a row written by hand does not name.
WITH dead AS MATERIALIZED (
    SELECT k.queue, k.group_id, g.job, g.attempt, g.since
    FROM set_config('synchronous_commit', 'off', true), unnest($1::text[], $2::text[]) AS k (queue, group_id)
    CROSS JOIN LATERAL (SELECT r.job, r.attempt, r.since
                        FROM pgfifo.queue_groups r
                        WHERE r.queue = k.queue AND r.group_id = k.group_id
                          AND r.session IS NOT NULL AND NOT pgfifo.lives(r.session)
                        FOR NO KEY UPDATE SKIP LOCKED) g
), marked AS (
    INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt)
    SELECT d.queue, d.group_id, d.job, d.attempt
    FROM dead d
    WHERE d.job IS NOT NULL AND d.attempt IS NOT NULL
      AND NOT EXISTS (SELECT FROM pgfifo.jobs j
                      WHERE j.queue = d.queue AND j.group_id = d.group_id AND j.id = d.job
                        AND CASE WHEN j.failures -> -1 ->> 'kind' = 'operator'
                                 THEN (j.failures -> -1 ->> 'at')::timestamptz > d.since
                            END)
    ORDER BY 1, 2
    ON CONFLICT (queue, group_id, id) DO UPDATE SET attempt = EXCLUDED.attempt, xid = NULL
)
UPDATE pgfifo.queue_groups g SET session = NULL
FROM dead d
WHERE g.queue = d.queue AND g.group_id = d.group_id
