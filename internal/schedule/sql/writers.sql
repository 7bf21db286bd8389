-- Tells which transactions are writing to the jobs, and whether they are prepared: all that may have drawn an id and
-- not committed it are among them. INSERT takes the table's ROW EXCLUSIVE lock before it draws the first id, and keeps
-- it until the transaction ends (PostgreSQL manual, "Explicit Locking"); pg_locks misses none, also those of the fast
-- path.
--
-- It also lists, in rows of their own, those who have requested a walk: nextval takes that lock of the sequence.
--
-- $1 the schema's name. A prepared transaction goes on under another name than it had before: -1/xid.
SELECT l.virtualtransaction, l.virtualtransaction LIKE '-1/%' AS prepared, c.relname = 'walk_requests' AS requests
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_locks l ON l.relation = c.oid
WHERE n.nspname = $1 AND c.relname IN ('jobs', 'walk_requests')
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database())
  AND l.mode = 'RowExclusiveLock'
  AND l.granted
