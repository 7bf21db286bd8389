-- Ends a statement of a transaction that has waited for a second for whoever has a row locked, and reports whether it
-- has.
--
-- $1 the transaction, $2 the texts of the statements that may be ended, $3 the name of the library's schema.
--
-- Run on another connection, as the role that has logged in (SET ROLE NONE): another one may not see what its sessions
-- do. What waits for a lock on a table, or for anything else, is left alone: see the view pg_stat_activity in the
-- PostgreSQL manual, where "transactionid" and "tuple" are waits for rows. The view has the beginning of a text. The
-- transaction is named, and not its session, because a session that a pooler shares may be anybody's by now.
--
-- If track_activities is off there is no text and no time. Then a statement is ended at once if its session has a lock
-- of type "tuple" on jobs: PostgreSQL holds one only while it waits for a row. If there is a text, that lock is not
-- asked for. If the row was changed during the wait, and another transaction has its new version locked, the session
-- has no such lock, and is not found.
--
-- The statement may go on at this very moment. Then the cancel hits whatever that session runs next: a later statement
-- of the same pipeline (the next claim, too), COMMIT's wait for a standby, which then ends too soon, or nothing. When
-- this has been answered, the cancel has arrived.
WITH waiting AS MATERIALIZED (
    SELECT a.pid
    FROM pg_catalog.pg_locks l
    JOIN pg_catalog.pg_stat_activity a USING (pid)
    WHERE l.locktype = 'transactionid' AND l.transactionid = $1::bigint::text::xid8::xid
      AND l.mode = 'ExclusiveLock' -- which the transaction itself has, and nobody else
      AND a.wait_event_type = 'Lock' AND a.wait_event IN ('transactionid', 'tuple')
      AND CASE WHEN a.query <> ''
               THEN EXISTS (SELECT FROM pg_catalog.unnest($2::text[]) t (sql)
                            WHERE pg_catalog.starts_with(t.sql, a.query))
               ELSE EXISTS (SELECT FROM pg_catalog.pg_locks r
                            JOIN pg_catalog.pg_class c ON c.oid = r.relation
                            JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                            WHERE r.pid = a.pid AND r.locktype = 'tuple' AND n.nspname = $3 AND c.relname = 'jobs')
          END
      AND coalesce(a.query_start <= pg_catalog.clock_timestamp() - interval '1 s', true)
)
SELECT coalesce(bool_or(pg_catalog.pg_cancel_backend(pid)), false) FROM waiting
