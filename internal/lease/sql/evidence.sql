-- Tells whether the worker that claimed a head before us died: whether its transaction ended without a commit.
--
-- $1 the transaction that locked the head's row last, if it locked the group's row last, too: 32 bits, widened here
-- with the epoch of the next transaction id to be given out. A claim locks both. An operator who deletes or locks a job
-- locks one row only, so its rollback is no evidence.
--
-- A worker commits whatever it does with a job, also when it gives it back unworked; only a lost connection, a killed
-- backend or a server crash leaves an aborted transaction behind. NULL, for an id too old to be known, is no evidence,
-- nor is one that is not in the past (a MultiXact looks like either; nothing in the library makes one on jobs).
SELECT coalesce(pg_xact_status(w.xid::text::xid8) = 'aborted', false) AS lost
FROM (SELECT n.next, n.next - ((n.next - $1::bigint) & 4294967295) AS xid
      FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next) n) w
WHERE w.xid >= 3 AND w.xid < w.next
