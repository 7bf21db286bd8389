-- Deletes dead letters for good, and tells how many those were.
--
-- $1 to $8 are those of redrive.sql.
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
), gone AS (
    DELETE FROM pgfifo.dead_letters d USING chosen c
    WHERE d.queue = c.queue AND d.group_id = c.group_id AND d.id = c.id
    RETURNING d.id
)
SELECT pg_catalog.count(*) FROM gone
