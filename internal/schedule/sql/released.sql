-- Tells which groups are not their sessions' any more (heads.sql): their numbers.
--
-- $1 queues, $2 group ids, $3 numbers of the sessions, pairwise. A session that has died still has its groups:
-- ended.sql tells.
SELECT k.n::integer
FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS k (queue, group_id, session, n)
WHERE (SELECT g.session = k.session FROM pgfifo.queue_groups g WHERE g.queue = k.queue AND g.group_id = k.group_id)
      IS NOT TRUE
