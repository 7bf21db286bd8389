-- Takes a job out of its group, into the dead letters or for good. Run after lock_job.sql.
--
-- $1 queue, $2 group id, $3 id, $4 why it becomes a dead letter, to be the last of its failures (NULL: it is
-- deleted), $5 how many failures to keep. xid is the transaction's id.
--
-- A DELETE wants a stronger lock than lock_job.sql takes: a transaction that has just referred to the job by a foreign
-- key is in its way. It is not waited for: no row.
--
-- A dead letter that a trigger of the user's keeps from being made is an error (of a text that is no boolean).
--
-- If the job had a time, the next one may have been due behind it for a while, and workers that are not told look for
-- what becomes due: it becomes due now. If it cannot, because somebody has it locked, say, a walk is requested.
WITH locked AS MATERIALIZED (
    SELECT id FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM pgfifo.jobs j USING locked l
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = l.id
    RETURNING j.*
), letter AS (
    INSERT INTO pgfifo.dead_letters
        (queue, group_id, id, payload, headers, attempts, max_attempts, enqueued_at, priority, failures)
    SELECT queue, group_id, id, payload, headers, attempts, max_attempts, enqueued_at, priority,
           pgfifo.with_failure(failures, $5::integer, attempts, 'operator', $4::text, '', current_user::text)
    FROM gone
    WHERE $4::text IS NOT NULL
    RETURNING 1
), next AS (
    SELECT n.id
    FROM (SELECT j.id, j.run_at
          FROM pgfifo.jobs j
          WHERE j.queue = $1 AND j.group_id = $2 AND j.id > $3
          ORDER BY j.queue, j.group_id, j.id
          LIMIT 1) n
    WHERE coalesce(n.run_at, '-infinity') <= statement_timestamp() AND (SELECT g.run_at FROM gone g) IS NOT NULL
), free AS (
    SELECT j.id
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = (SELECT n.id FROM next n)
      AND j.id NOT IN (SELECT pgfifo.held_by_sessions($1, $2))
    FOR NO KEY UPDATE SKIP LOCKED
), due AS (
    UPDATE pgfifo.jobs j SET run_at = statement_timestamp()
    FROM free f
    WHERE j.queue = $1 AND j.group_id = $2 AND j.id = f.id
    RETURNING j.id
), request AS (
    SELECT pg_catalog.nextval('pgfifo.walk_requests'::pg_catalog.regclass)
    FROM next n
    WHERE n.id NOT IN (SELECT due.id FROM due)
)
SELECT pg_current_xact_id()::text::bigint AS xid
FROM gone
WHERE CASE WHEN $4::text IS NOT NULL AND NOT EXISTS (SELECT FROM letter)
           THEN ('pgfifo: no dead letter was made of job ' || gone.id::text)::boolean
           ELSE (SELECT pg_catalog.count(*) FROM request) >= 0
      END
