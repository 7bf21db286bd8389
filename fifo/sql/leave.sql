-- Deletes the rows of groups that were made for one job each. Run in the transaction that holds them, after the
-- statement that has deleted the jobs: one row, with how many there were.
--
-- $1 queue, $2 group ids.
--
-- A group keeps its row if this statement sees another job in it. For a job that it cannot see the row is made anew, as
-- for any new group (ensure.sql of package schedule), which waits until this transaction has ended.
WITH own AS (
    DELETE FROM pgfifo.queue_groups g
    WHERE g.queue = $1 AND g.group_id = ANY ($2::text[])
      AND (SELECT true FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id LIMIT 1) IS NULL
    RETURNING g.group_id
), fences AS (
    DELETE FROM pgfifo.fences f WHERE f.queue = $1 AND f.group_id IN (SELECT group_id FROM own)
)
SELECT count(*) FROM own
