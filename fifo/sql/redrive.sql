-- Moves dead letters back to the jobs, under their old ids and so to their old places, with their attempts to begin
-- anew and their failures kept.
--
-- $1 queue, $2 group id (NULL: the whole queue), $3 ids (NULL: all). xid is the transaction's id, the same in each row.
-- A job that its group has passed by meanwhile runs next: lower ids go first, and workers look below what they have
-- finished when they are told, or when they look for what is due: hence run_at.
WITH letter AS (
    DELETE FROM pgfifo.dead_letters
    WHERE queue = $1 AND ($2::text IS NULL OR group_id = $2) AND ($3::bigint[] IS NULL OR id = ANY ($3::bigint[]))
    RETURNING *
), marks AS ( -- of the same attempts, before the job died
    DELETE FROM pgfifo.attempt_marks m USING letter l
    WHERE m.queue = l.queue AND m.group_id = l.group_id AND m.id = l.id
)
INSERT INTO pgfifo.jobs (queue, group_id, id, payload, headers, run_at, max_attempts, enqueued_at, failures)
SELECT queue, group_id, id, payload, headers, statement_timestamp(), max_attempts, enqueued_at, failures
FROM letter
ORDER BY id
RETURNING group_id, id, pg_current_xact_id()::text::bigint AS xid
