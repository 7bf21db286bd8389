-- Collects idle group rows, step 1 of 2: locks up to $4 rows behind ($1 queue, $2 group id) that were made more than
-- $3 microseconds ago and have no jobs.
--
-- FOR UPDATE, which no claim can hold beside: whoever runs the group keeps its row. SKIP LOCKED: never waits.
--
-- The lock covers whose the row was before, which may be evidence of a crash (evidence.sql). This statement may take
-- seconds, and a group that had no jobs when it began can have lost a worker when it comes there. So it leaves a row
-- alone that was locked last by a transaction which had not committed when the statement began.
SELECT g.queue, g.group_id
FROM pgfifo.queue_groups g,
     (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n
WHERE (g.queue, g.group_id) > ($1, $2)
  AND g.created_at < statement_timestamp() - $3::bigint::float8 * interval '1 microsecond'
  AND (SELECT true FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id LIMIT 1) IS NULL
  AND CASE (n.next - g.xmax::text::bigint) & 4294967295 -- how many transactions ago that one began, of 32 bits
          WHEN n.next & 4294967295 THEN true -- none has locked it
          ELSE (SELECT CASE WHEN a.ago NOT BETWEEN 1 AND 2147483647 THEN false -- it is newer than this statement
                            WHEN n.next - a.ago < 3 THEN true
                            ELSE coalesce(pg_xact_status((n.next - a.ago)::text::xid8) = 'committed', true)
                       END
                FROM (SELECT (n.next - g.xmax::text::bigint) & 4294967295 AS ago) a)
      END
ORDER BY g.queue, g.group_id
LIMIT $4
FOR UPDATE OF g SKIP LOCKED
