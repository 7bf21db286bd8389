-- Returns the ids of the jobs that were enqueued, as a list with commas, in any order, and the transaction's id: one
-- row, or an error.
--
-- In front of it stands the INSERT of enqueue.sql, as WITH job AS (...), with its parameters, and perhaps
-- enqueue_new.sql. A trigger of the user's may keep rows from being made. Then the jobs are fewer than the messages,
-- and an error (of a text that is no number) undoes the others.
SELECT CASE WHEN count(*) = pg_catalog.cardinality($1::text[]) THEN pg_catalog.string_agg(id::text, ',')
            ELSE ('pgfifo: ' || count(*)::text || ' jobs for '
                  || pg_catalog.cardinality($1::text[])::text || ' messages')::integer::text
       END AS ids,
       pg_current_xact_id()::text::bigint AS xid
FROM job
