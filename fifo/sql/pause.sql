-- Pauses a group, or a queue. What is paused already gets the new reason, and keeps its time.
--
-- $1 queue, $2 group id ('': the queue), $3 reason. It touches no row of a job or group, so it never waits for a
-- running job. Each claim looks here, so none that begins after the commit starts a job.
INSERT INTO pgfifo.pauses (queue, group_id, reason)
VALUES ($1, $2, $3)
ON CONFLICT (queue, group_id) DO UPDATE SET reason = EXCLUDED.reason, by_hand = true
