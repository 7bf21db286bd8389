-- Deletes up to $2 dead letters that died more than $1 microseconds ago, the oldest first. Whoever redrives one at the
-- same moment wins.
DELETE FROM pgfifo.dead_letters d
USING (SELECT queue, group_id, id FROM pgfifo.dead_letters
       WHERE died_at < statement_timestamp() - $1::bigint::float8 * interval '1 microsecond'
       ORDER BY died_at
       LIMIT $2
       FOR UPDATE SKIP LOCKED) old
WHERE d.queue = old.queue AND d.group_id = old.group_id AND d.id = old.id
