-- Marks attempts as begun.
--
-- $1 queues, $2 group ids, $3 ids, $4 numbers of attempts, $5 the transactions that claimed them, $6 whether several
-- jobs of the group may run at once, pairwise; no group twice. All jobs are held by the caller, on another connection.
--
-- A statement that was under way for long may come when its claim has ended: then it makes no mark, which nobody would
-- take back. Where several jobs of a group may run at once, the mark names that transaction, and the job has started
-- with it: others pass over it for as long as the transaction has its row locked (claim_group_slot.sql). Elsewhere it
-- names none: what was claimed before the queue had its limit has no slot, and nobody is to start beside it.
--
-- Run in a transaction of its own: a mark is durable on this server when that is committed, whatever standbys do. Then
-- the caller looks whether the claim is still open: if it is, whoever claims the job after it sees the mark. It is
-- taken back in the transaction that settles or releases the attempt (unmark.sql). So a mark that a claim finds, of the
-- attempt that would begin now, is that of an attempt that died. VACUUM can take the evidence of evidence.sql away; it
-- cannot take this.
INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt, xid)
SELECT k.queue, k.group_id, k.id, k.attempt, CASE WHEN k.slot THEN k.xid::text::xid8 END
FROM set_config('synchronous_commit', 'local', true),
     unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::bigint[], $6::boolean[])
         AS k (queue, group_id, id, attempt, xid, slot)
WHERE pg_xact_status(k.xid::text::xid8) = 'in progress'
ORDER BY 1, 2
ON CONFLICT (queue, group_id, id) DO UPDATE SET attempt = EXCLUDED.attempt, xid = EXCLUDED.xid
WHERE EXCLUDED.xid IS NULL OR pg_xact_status(EXCLUDED.xid) = 'in progress' -- it may have waited for the next one's mark
