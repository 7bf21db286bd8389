-- Counts the jobs of a group above $3, 17 at most: a hint for the claims that follow, whether there is more behind
-- their heads.
--
-- $1 queue, $2 group id, $3 floor, as in claim.sql. It is sent before the group is locked, and once for 16 claims: in
-- each of them it would cost a tenth.
SELECT count(*) AS jobs
FROM (SELECT FROM pgfifo.jobs w WHERE w.queue = $1 AND w.group_id = $2 AND w.id > $3 LIMIT 17) few
