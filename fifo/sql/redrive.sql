-- Moves dead letters back to the jobs, with their attempts to begin anew and their failures kept: under their old ids,
-- and so to their old places, or under new ids to the ends of their groups.
--
-- $1 queue, $2 group id (NULL: the whole queue), $3, $4 the place (group id, id) to start behind, $5 ids (NULL: any),
-- $6 kind and $7 a part of the error of the last failure ('': any), $8 how many at most, the first ones (0: all), $9
-- whether to the ends, $10 then whether in the order of commits, as enqueue.sql has it, $11 payload, $12 headers (NULL:
-- the letter's). The answer is each letter's group and id, and the job's id; xid is the transaction's id, the same in
-- each row.
--
-- It locks what it chooses, and then deletes that: a limit counts none that somebody else is just moving, if that
-- commits.
--
-- In its old place, a job that its group has passed by meanwhile runs next: lower ids go first, and workers look below
-- what they have finished when they are told, or when they look for what is due: hence run_at. A job with the same id
-- is an error.
--
-- At the end, ids are drawn in the order of the old ones, by the column's default: see the trigger draw_after_xid. So
-- the nth job of a group is that of its nth letter. They are paired as arrays: a join would look at each pair of a
-- group. If a trigger of the user's keeps jobs from being made, the last letters have none, which is an error (of a
-- text that is no number).
WITH chosen AS (
    SELECT d.queue, d.group_id, d.id
    FROM pgfifo.dead_letters d
    WHERE d.queue = $1 AND ($2::text IS NULL OR d.group_id = $2) AND (d.group_id, d.id) > ($3::text, $4::bigint)
      AND ($5::bigint[] IS NULL OR d.id = ANY ($5::bigint[]))
      AND ($6::text = '' OR d.failures -> (-1) ->> 'kind' = $6)
      AND ($7::text = '' OR pg_catalog.strpos(d.failures -> (-1) ->> 'error', $7) > 0)
    ORDER BY d.queue, d.group_id, d.id
    LIMIT nullif($8::bigint, 0)
    FOR UPDATE
), letter AS (
    DELETE FROM pgfifo.dead_letters d USING chosen c
    WHERE d.queue = c.queue AND d.group_id = c.group_id AND d.id = c.id
    RETURNING d.queue, d.group_id, d.id, coalesce($11::bytea, d.payload) AS payload,
              nullif(coalesce($12::text::jsonb, d.headers), '{}'::jsonb) AS headers,
              d.max_attempts, d.enqueued_at, d.failures, d.priority
), marks AS ( -- of the same attempts, before the job died
    DELETE FROM pgfifo.attempt_marks m USING letter l
    WHERE m.queue = l.queue AND m.group_id = l.group_id AND m.id = l.id
), back AS (
    INSERT INTO pgfifo.jobs
        (queue, group_id, id, payload, headers, run_at, max_attempts, enqueued_at, failures, priority)
    SELECT queue, group_id, id, payload, headers, statement_timestamp(), max_attempts, enqueued_at, failures, priority
    FROM letter
    WHERE NOT $9::boolean
    ORDER BY id
    RETURNING group_id, id
), tail AS (
    INSERT INTO pgfifo.jobs (queue, group_id, payload, headers, max_attempts, enqueued_at, failures, priority)
    SELECT queue, group_id, payload, headers, max_attempts, enqueued_at, failures, priority
    FROM letter
    WHERE $9::boolean
      AND CASE WHEN $10::boolean
               THEN (SELECT pg_catalog.count(pg_catalog.pg_advisory_xact_lock(k.hash)) > 0
                     FROM (SELECT DISTINCT pg_catalog.hashtextextended('pgfifo ' || g.queue || '/' || g.group_id,
                                                                       length(g.queue)::bigint)
                           FROM letter g
                           ORDER BY 1) AS k (hash))
               ELSE true
          END
    ORDER BY id
    RETURNING group_id, id
), job AS (
    SELECT group_id, id FROM back UNION ALL SELECT group_id, id FROM tail
)
SELECT p.group_id, p.id,
       coalesce(p.job_id, ('pgfifo: fewer jobs than dead letters: none for ' || p.id::text)::bigint) AS job_id,
       pg_current_xact_id()::text::bigint AS xid
FROM unnest((SELECT pg_catalog.array_agg(l.group_id::text ORDER BY l.group_id, l.id) FROM letter l),
            (SELECT pg_catalog.array_agg(l.id ORDER BY l.group_id, l.id) FROM letter l),
            (SELECT pg_catalog.array_agg(j.id ORDER BY j.group_id, j.id) FROM job j))
     WITH ORDINALITY AS p (group_id, id, job_id, n)
ORDER BY p.n
