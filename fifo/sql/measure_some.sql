-- Counts up to $4 jobs and as many dead letters, and tells when the oldest job was enqueued, and since when a job is
-- due: as measure.sql, and as cheap whatever the backlog. It reads $4 index entries of each of three indexes, and their
-- rows.
--
-- $1 queue, from group id $2 to $3. more: there is more of either than was counted. Then the times are those of the
-- jobs that were counted, and of the $4 lowest ids of the schema: an id tells, except for redrives, when its job came.
WITH counted AS (
    SELECT j.group_id, j.enqueued_at, j.run_at
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND j.group_id >= $2::text AND j.group_id <= $3::text
    ORDER BY j.queue, j.group_id, j.id
    LIMIT $4::integer + 1
), oldest AS (
    SELECT o.enqueued_at, o.run_at
    FROM (SELECT j.queue, j.group_id, j.enqueued_at, j.run_at
          FROM pgfifo.jobs j
          WHERE (SELECT pg_catalog.count(*) FROM counted) > $4::integer
          ORDER BY j.id + 0
          LIMIT $4::integer) o
    WHERE o.queue = $1 AND o.group_id >= $2::text AND o.group_id <= $3::text
), letters AS (
    SELECT
    FROM pgfifo.dead_letters d
    WHERE d.queue = $1 AND d.group_id >= $2::text AND d.group_id <= $3::text
    ORDER BY d.queue, d.group_id, d.id
    LIMIT $4::integer + 1
), n AS (
    SELECT (SELECT pg_catalog.count(*) FROM counted) AS jobs, (SELECT pg_catalog.count(*) FROM letters) AS letters
)
SELECT least(n.jobs, $4::integer) AS jobs,
       (SELECT pg_catalog.count(DISTINCT c.group_id) FROM (SELECT * FROM counted LIMIT $4::integer) c) AS groups,
       least(n.letters, $4::integer) AS dead_letters,
       t.oldest_at,
       t.due_since,
       greatest(n.jobs, n.letters) > $4::integer AS more
FROM n
CROSS JOIN (
    SELECT min(pgfifo.in_range(j.enqueued_at)) AS oldest_at,
           min(pgfifo.in_range(greatest(j.enqueued_at, j.run_at)))
               FILTER (WHERE j.run_at IS NULL OR j.run_at <= statement_timestamp()) AS due_since
    FROM (SELECT c.enqueued_at, c.run_at FROM counted c
          UNION ALL
          SELECT o.enqueued_at, o.run_at FROM oldest o) j) t
