-- Marks an attempt whose outcome cannot be recorded, as one that died is marked: whoever claims the job next counts it
-- (see mark.sql). Run in the transaction that has the group (relock.sql). No row: the job is not as it was claimed.
--
-- $1 queue, $2 group id, $3 id, $4 how many attempts it had when it was claimed.
INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt)
SELECT j.queue, j.group_id, j.id, j.attempts + 1
FROM pgfifo.jobs j
WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3 AND j.attempts = $4::integer
ON CONFLICT (queue, group_id, id) DO UPDATE SET attempt = EXCLUDED.attempt, xid = NULL
