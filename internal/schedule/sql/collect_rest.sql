-- Deletes what else is kept of groups that have no row any more: fencing tokens, of which the next one is higher all
-- the same (fence.sql), marks of attempts that no longer matter (mark.sql), and slots of groups that nobody holds
-- (lock_group_slot.sql).
--
-- Where several jobs of a group may run at once, a claim does without the group's row: a job that was enqueued since
-- may run by now. It keeps its slot, which is locked, and its mark: that is in this snapshot only if the job is, too.
WITH groups AS (
    SELECT k.queue, k.group_id
    FROM unnest($1::text[], $2::text[]) AS k (queue, group_id)
    WHERE (SELECT true FROM pgfifo.queue_groups g WHERE g.queue = k.queue AND g.group_id = k.group_id) IS NULL
), free AS (
    SELECT s.queue, s.group_id, s.n
    FROM pgfifo.group_slots s JOIN groups k ON s.queue = k.queue AND s.group_id = k.group_id
    FOR UPDATE OF s SKIP LOCKED
), slots AS (
    DELETE FROM pgfifo.group_slots s USING free f
    WHERE s.queue = f.queue AND s.group_id = f.group_id AND s.n = f.n
), marks AS (
    DELETE FROM pgfifo.attempt_marks m USING groups k WHERE m.queue = k.queue AND m.group_id = k.group_id
      AND (SELECT true FROM pgfifo.jobs j WHERE j.queue = m.queue AND j.group_id = m.group_id AND j.id = m.id) IS NULL
)
DELETE FROM pgfifo.fences f USING groups k WHERE f.queue = k.queue AND f.group_id = k.group_id
