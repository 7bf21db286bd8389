-- Marks attempts as begun.
--
-- $1 queues, $2 group ids, $3 ids, $4 numbers of attempts, pairwise; no group twice. All groups are held by the caller,
-- on another connection.
--
-- Run by itself: a mark is durable on this server when the statement has returned, whatever standbys do. It is taken
-- back in the transaction that settles or releases the attempt (unmark.sql). So one that a claim finds, of the attempt
-- that would begin now, is of an attempt that died. VACUUM can take the evidence of evidence.sql away; it cannot take
-- this.
INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt)
SELECT k.queue, k.group_id, k.id, k.attempt
FROM set_config('synchronous_commit', 'local', true),
     unnest($1::text[], $2::text[], $3::bigint[], $4::integer[]) AS k (queue, group_id, id, attempt)
ORDER BY 1, 2
ON CONFLICT (queue, group_id, id) DO UPDATE SET attempt = EXCLUDED.attempt
