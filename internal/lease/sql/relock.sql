-- Locks a group's row to record what became of a job whose claim is lost while its worker lives. One row, or none: the
-- session that was lost has not ended yet, or somebody else has claimed the group since, and holds it or has died with
-- it. They have seen what was lost here, and what they leave is evidence of a crash. It never waits: whoever waits may
-- be given the row of one who has died meanwhile.
--
-- $1 queue, $2 group id; $3 milliseconds for which the server may wait for us then. One that freezes here, or is cut
-- off, must not keep the group for longer than a lane would. Nothing is left of that setting when the transaction
-- ends. $4 the transactions that were lost, as 32 bits.
--
-- The lock is that of lock.sql. It keeps claims away until the record is committed, and when it is freed by that
-- commit the row no longer bears the transaction that was lost, so that one is no evidence of a crash (evidence.sql).
--
-- own_xid is asked for above the lock, so the transaction has no id unless the row is locked. The head is locked only
-- then (relockHeadSQL): without the group, a lock on it would hide from the group's holder that an attempt was lost.
SELECT pg_current_xact_id() AS own_xid
FROM (SELECT g.group_id
      FROM pg_catalog.set_config('idle_in_transaction_session_timeout', $3::text, true) AS i,
           pgfifo.queue_groups g
      WHERE g.queue = $1 AND g.group_id = $2 AND g.session IS NULL
        AND (g.xmax::text = ANY ($4::text[]) OR g.xmax = '0'::xid
             OR (SELECT CASE WHEN w.ago BETWEEN 1 AND 2147483647 -- else it is newer than this statement
                             THEN coalesce(pg_xact_status((w.next - w.ago)::text::xid8), 'committed') = 'committed'
                        END
                 FROM (SELECT n.next, (n.next - g.xmax::text::bigint) & 4294967295 AS ago
                       FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n) w))
      FOR NO KEY UPDATE OF g SKIP LOCKED) l
