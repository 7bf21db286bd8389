-- Deletes dead letters for good, and tells how many those were.
--
-- $1 queue, $2 group id (NULL: the whole queue), $3 ids (NULL: all).
WITH gone AS (
    DELETE FROM pgfifo.dead_letters d
    WHERE d.queue = $1 AND ($2::text IS NULL OR d.group_id = $2) AND ($3::bigint[] IS NULL OR d.id = ANY ($3::bigint[]))
    RETURNING d.id
)
SELECT pg_catalog.count(*) FROM gone
