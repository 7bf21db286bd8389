-- Deletes what else is kept of groups that have no row any more: fencing tokens, of which the next one is higher all
-- the same (fence.sql), and marks of attempts that no longer matter (mark.sql).
WITH groups AS (
    SELECT k.queue, k.group_id
    FROM unnest($1::text[], $2::text[]) AS k (queue, group_id)
    WHERE (SELECT true FROM pgfifo.queue_groups g WHERE g.queue = k.queue AND g.group_id = k.group_id) IS NULL
), marks AS (
    DELETE FROM pgfifo.attempt_marks m USING groups k WHERE m.queue = k.queue AND m.group_id = k.group_id
)
DELETE FROM pgfifo.fences f USING groups k WHERE f.queue = k.queue AND f.group_id = k.group_id
