-- Tells which of the transactions in $1 (64-bit ids) have ended, and whether their workers died: whether they ended
-- without a commit. It touches no table: watching the groups that others hold costs a microsecond each.
SELECT e.xid, e.status = 'aborted' AS died
FROM (SELECT x.xid, coalesce(pg_xact_status(x.xid::text::xid8), 'committed') AS status -- NULL: long ago
      FROM unnest($1::bigint[]) AS x (xid)) e
WHERE e.status <> 'in progress'
