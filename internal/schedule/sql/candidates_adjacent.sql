-- Lists the heads of the groups that have one of the next $3 jobs of a queue behind group $2, in the order of their
-- ids.
--
-- $1 queue, $2 group id to start behind ('': at the beginning), $3 how many jobs to read.
--
-- It is candidates.sql for groups that are short: where each has a job or a few, reading one after the other costs a
-- third of skipping from group to group, and with what heads.sql adds some six tenths (100,000 groups of two or three
-- jobs). In a long one it reads $3 jobs for one head, and no more. No rows: no jobs. It ends with heads.sql.
WITH walk AS MATERIALIZED (
    SELECT $1::text AS queue, j.group_id, j.id, j.run_at, j.xmax AS xid, j.priority
    FROM pgfifo.jobs j
    WHERE j.queue = $1 AND j.group_id > $2
    ORDER BY j.queue, j.group_id, j.id
    LIMIT $3
)
