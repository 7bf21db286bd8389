-- Deletes up to $1 dead letters that are older than their queue keeps them, the oldest of a queue first. Whoever
-- redrives one at the same moment wins. It looks only at queues that keep them for a time, and there at those that are
-- too old.
WITH old AS MATERIALIZED (
    SELECT o.queue, o.group_id, o.id
    FROM pgfifo.queues q
    CROSS JOIN LATERAL (
        SELECT l.queue, l.group_id, l.id
        FROM pgfifo.dead_letters l
        WHERE l.queue = q.queue::text
          AND l.died_at < statement_timestamp() - q.dead_letter_retention::float8 * interval '1 microsecond'
        ORDER BY l.died_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED) o
    WHERE q.dead_letter_retention > 0
    LIMIT $1
)
DELETE FROM pgfifo.dead_letters d
USING old
WHERE d.queue = old.queue AND d.group_id = old.group_id AND d.id = old.id
