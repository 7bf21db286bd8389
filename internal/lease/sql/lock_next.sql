-- Locks the first job of a group that nobody runs, if this transaction has locked a slot of the group
-- (lock_group_slot.sql). No row: it has not, or there is no such job. It never waits.
--
-- $1 queue, $2 group id. locked says whether the job is: if not, somebody else has it, and a later one never takes its
-- place, because it is named by its ctid.
--
-- A worker runs a job if the transaction that has its row locked is the one that its mark names, and is in progress. An
-- operator has none, nor has a claim that is just looking at a job: it may find that it is not to be run. So neither is
-- passed over. This is for the lock: whether it is the right job is looked at after it (claim_group_slot.sql).
WITH next AS MATERIALIZED (
    SELECT h.ctid
    FROM pgfifo.jobs h
    WHERE h.queue = $1 AND h.group_id = $2
      AND EXISTS (SELECT FROM pgfifo.group_slots s
                  WHERE s.queue = $1 AND s.group_id = $2 AND s.xmax = pg_current_xact_id_if_assigned()::xid)
      AND CASE WHEN h.xmax = '0'::xid THEN true
               ELSE (SELECT CASE WHEN m.xid::xid = h.xmax THEN pg_xact_status(m.xid) = 'in progress' END
                     FROM pgfifo.attempt_marks m
                     WHERE m.queue = $1 AND m.group_id = $2 AND m.id = h.id) IS NOT TRUE
          END
    ORDER BY h.queue, h.group_id, h.id
    LIMIT 1
)
SELECT j.own IS NOT NULL AS locked
FROM next
LEFT JOIN LATERAL (SELECT true AS own FROM pgfifo.jobs l WHERE l.ctid = next.ctid
                   FOR NO KEY UPDATE SKIP LOCKED) j ON true
