-- Tells what has become of the transactions in $1 (64-bit ids): 'in progress', 'committed' or 'aborted'. It touches
-- no table. A prepared transaction is in progress.
--
-- An id that is newer than all that have ended is beyond the snapshot, and may be beyond what pg_xact_status takes:
-- after a failover the server may not have heard of it.
SELECT x.xid,
       CASE WHEN x.xid < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            THEN coalesce(pg_xact_status(x.xid::text::xid8), 'committed') -- NULL: long ago
            ELSE 'in progress'
       END AS status
FROM pg_catalog.unnest($1::bigint[]) AS x (xid)
