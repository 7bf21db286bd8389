-- Records the last attempt of a job and moves it to the dead letters; its group goes on. Run in the transaction that
-- holds the job, after the handler's writes are undone: one row, or an error.
--
-- $1 queue, $2 group id, $3 id, $4 attempts before this one, $5 kind of failure, $6 error, $7 stack ('': none),
-- $8 worker, $9 how many failures to keep. No row: somebody else has counted the attempt. A dead letter of the same key
-- is an error: it is another job's, and is not lost for this one. If a trigger of the user's keeps the dead letter from
-- being made, COMMIT, which is on its way already, would keep the deletion: an error (of a text that is no number)
-- stops it.
WITH job AS (
    DELETE FROM pgfifo.jobs
    WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
    RETURNING *
), letter AS (
    INSERT INTO pgfifo.dead_letters
        (queue, group_id, id, payload, headers, attempts, max_attempts, enqueued_at, priority, failures)
    SELECT queue, group_id, id, payload, headers, attempts + 1, max_attempts, enqueued_at, priority,
           pgfifo.with_failure(failures, $9::integer, attempts + 1, $5::text, $6::text, $7::text, $8::text)
    FROM job
    RETURNING 1
)
SELECT CASE WHEN NOT EXISTS (SELECT FROM letter)
            THEN ('pgfifo: no dead letter was made of job ' || job.id::text)::integer
       END
FROM job
