-- Collects idle group rows, step 1 of 2: locks up to $4 rows behind ($1 queue, $2 group id) that were made more than
-- $3 microseconds ago and have no jobs.
--
-- FOR UPDATE, which no claim can hold beside: whoever runs the group keeps its row. SKIP LOCKED: never waits.
SELECT g.queue, g.group_id
FROM pgfifo.queue_groups g
WHERE (g.queue, g.group_id) > ($1, $2)
  AND g.created_at < statement_timestamp() - $3::bigint::float8 * interval '1 microsecond'
  AND (SELECT true FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id LIMIT 1) IS NULL
ORDER BY g.queue, g.group_id
LIMIT $4
FOR UPDATE OF g SKIP LOCKED
