-- Undoes the blocks whose jobs are gone, and leaves the pauses that an operator has made. Run after what has taken jobs
-- away, in its transaction: with a new snapshot, it sees a block that was made while that looked.
--
-- $1 queue, $2 group id (NULL: the whole queue). It locks the rows first. So it waits for an operator who is pausing
-- one of the groups, and then sees that pause.
WITH gone AS (
    SELECT p.queue, p.group_id, p.job, p.by_hand
    FROM pgfifo.pauses p
    WHERE p.queue = $1 AND ($2::text IS NULL OR p.group_id = $2) AND p.job IS NOT NULL
      AND NOT EXISTS (SELECT FROM pgfifo.jobs j WHERE j.queue = p.queue AND j.group_id = p.group_id AND j.id = p.job)
    FOR UPDATE OF p
), free AS (
    DELETE FROM pgfifo.pauses p USING gone g
    WHERE p.queue = g.queue AND p.group_id = g.group_id AND p.job = g.job AND NOT g.by_hand
)
UPDATE pgfifo.pauses p SET job = NULL
FROM gone g
WHERE p.queue = g.queue AND p.group_id = g.group_id AND p.job = g.job AND g.by_hand
