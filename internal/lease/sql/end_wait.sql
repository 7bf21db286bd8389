-- Ends a statement of a transaction that waits for whoever has a row locked, and reports whether there was one.
--
-- $1 the transaction, $2 the texts of the statements that may be ended.
--
-- Run on another connection. What waits for a lock on a table, or for anything else, is left alone: see the view
-- pg_stat_activity in the PostgreSQL manual, where "transactionid" and "tuple" are waits for rows. The view has the
-- beginning of a text, or none of it if track_activities is off: then any statement that waits for a row is ended. The
-- transaction is named, and not its session, because a session that a pooler shares may be anybody's by now. The
-- statement may go on in this very moment. Then the next one is cancelled, or nothing.
WITH waiting AS MATERIALIZED (
    SELECT a.pid
    FROM pg_catalog.pg_locks l
    JOIN pg_catalog.pg_stat_activity a USING (pid)
    WHERE l.locktype = 'transactionid' AND l.transactionid = $1::bigint::text::xid8::xid
      AND l.mode = 'ExclusiveLock' -- which the transaction itself has, and nobody else
      AND a.wait_event_type = 'Lock' AND a.wait_event IN ('transactionid', 'tuple')
      AND EXISTS (SELECT FROM pg_catalog.unnest($2::text[]) t (sql) WHERE pg_catalog.starts_with(t.sql, a.query))
)
SELECT coalesce(bool_or(pg_catalog.pg_cancel_backend(pid)), false) FROM waiting
