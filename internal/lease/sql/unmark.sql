-- Takes the marks of attempts back that end with this transaction: one row. See mark.sql.
--
-- $1 queues, $2 group ids, $3 ids, pairwise. A mark of another job of the group stays.
WITH gone AS (
    DELETE FROM pgfifo.attempt_marks m
    USING unnest($1::text[], $2::text[], $3::bigint[]) AS k (queue, group_id, id)
    WHERE m.queue = k.queue AND m.group_id = k.group_id AND m.id = k.id
    RETURNING 1
)
SELECT count(*) FROM gone
