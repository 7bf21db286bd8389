-- Deletes the fencing tokens of groups that have no row any more: their next token is higher all the same (fence.sql).
DELETE FROM pgfifo.fences f
USING unnest($1::text[], $2::text[]) AS k (queue, group_id)
WHERE f.queue = k.queue AND f.group_id = k.group_id
  AND (SELECT true FROM pgfifo.queue_groups g WHERE g.queue = f.queue AND g.group_id = f.group_id) IS NULL
