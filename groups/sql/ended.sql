-- Tells which of the transactions in $1 (64-bit ids) have ended, by commit, rollback or the death of their worker.
-- It touches no table: watching the groups that others hold costs a microsecond each.
SELECT x.xid
FROM unnest($1::bigint[]) AS x (xid)
WHERE pg_xact_status(x.xid::text::xid8) IS DISTINCT FROM 'in progress'
