-- Lists the heads of the groups that have one of the first $5 jobs of a queue that lie between others: for each n, behind id
-- $3[n] of group $2[n], and before group $4[n].
--
-- $1 queue, $2 group ids, in order, $3 ids, $4 group ids, $5 how many jobs to read, of all gaps together.
--
-- It is candidates_adjacent.sql for a worker that knows most groups: it passes over those, and with them over their dead
-- entries, which an old snapshot may keep by the million. No rows: there are no jobs between.
-- It ends with heads.sql.
WITH walk AS MATERIALIZED (
    SELECT found.*
    FROM unnest($2::text[], $3::bigint[], $4::text[]) WITH ORDINALITY AS gap (group_id, id, before, n)
    CROSS JOIN LATERAL (
        SELECT $1::text AS queue, j.group_id, j.id, j.run_at, j.xmax AS xid
        FROM pgfifo.jobs j
        WHERE j.queue = $1 AND (j.group_id, j.id) > (gap.group_id, gap.id) AND j.group_id < gap.before
        ORDER BY j.queue, j.group_id, j.id
        LIMIT $5) found
    LIMIT $5
)
