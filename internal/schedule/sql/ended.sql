-- Tells which of the transactions in $1 (64-bit ids) have ended, and whether their workers died: whether they ended
-- without a commit. A negative number is that of a session (heads.sql). It touches no table: watching the groups that
-- others hold costs a microsecond each.
--
-- An id that is newer than all that have ended is beyond the snapshot, where pg_xact_status does not go: such a
-- transaction is running if pg_locks knows it. If not, the server has never heard of it: it has lost its newest
-- commits, in a crash without synchronous_commit or as a promoted standby, and the worker's transaction with them.
SELECT e.xid, e.status = 'aborted' AS died
FROM (SELECT x.xid,
             CASE WHEN x.xid < 0
                  THEN CASE WHEN pgfifo.lives(-x.xid) THEN 'in progress' ELSE 'aborted' END
                  WHEN x.xid < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                  THEN coalesce(pg_xact_status(x.xid::text::xid8), 'committed') -- NULL: long ago
                  WHEN x.xid::text::xid8::xid
                       IN (SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid')
                  THEN 'in progress'
                  ELSE 'aborted'
             END AS status
      FROM pg_catalog.unnest($1::bigint[]) AS x (xid)) e
WHERE e.status <> 'in progress'
