-- Records the last attempt of a job and moves it to another queue, as a new message at the end of the group with the
-- same id there; its own group goes on. Run in the transaction that holds the job, after the handler's writes are
-- undone: one row, or an error.
--
-- $1 to $9 are those of bury.sql, $10 the other queue. No row: somebody else has counted the attempt. Payload, headers,
-- failures and priority are kept; headers say where it was, over those of an earlier move. Headers that are no
-- object, or leave no room for the new ones (26 kB at most), were written by hand, and count as none. It inserts a row
-- that nobody else can have, so it waits for nobody. See the trigger draw_after_xid for its id. If a trigger of the
-- user's keeps that row from being made, it is an error, as in bury.sql.
WITH job AS (
    DELETE FROM pgfifo.jobs
    WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4::integer
    RETURNING *
), moved AS (
    INSERT INTO pgfifo.jobs (queue, group_id, payload, priority, headers, failures)
    SELECT $10, group_id, payload, priority,
           CASE WHEN pg_catalog.jsonb_typeof(headers) = 'object'
                     AND pg_catalog.octet_length(headers::text) < 16777216 - 65536 THEN headers ELSE '{}' END
           || pg_catalog.jsonb_build_object(
                  'pgfifo-origin-queue', queue::text, 'pgfifo-origin-id', id::text,
                  'pgfifo-origin-attempts', (attempts + 1)::text, 'pgfifo-origin-error', $6::text),
           pgfifo.with_failure(failures, $9::integer, attempts + 1, $5::text, $6::text, $7::text, $8::text)
    FROM job
    RETURNING 1
)
SELECT CASE WHEN NOT EXISTS (SELECT FROM moved)
            THEN ('pgfifo: no job was made of job ' || job.id::text)::integer
       END
FROM job
