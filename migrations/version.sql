-- The version that a schema is at, 0 if it has none, or is not there; the lowest version that a release has to know to
-- work with it; the encoding of the database, and that of the connection; the tables that lack their primary key or
-- their trigger; and whether the functions are those of another schema.
--
-- $1 schema, $2 its table of jobs, qualified and quoted as migrations.Up writes it.
--
-- The two numbers are the constants that the functions schema_version and serves_from return; each step replaces both.
-- They are read from the catalog, not called: a call of a function that is not there is an error, which would abort
-- the caller's transaction; this needs no privilege on the schema; and it never waits for a migration that is under
-- way. One statement, so that they belong together. A schema that does not say whom it serves serves its own version.
--
-- pg_restore makes the functions first, then the rows, then the keys and the triggers: those of a table when its rows
-- are there. So if one is missing, rows may be missing, too: pauses, say. ALTER SCHEMA ... RENAME leaves the texts of
-- the functions as they are: they go on working in the schema that has the old name now. Where the name was replaced in
-- the text of a dump, some have the new name, not quoted, and some, as the key of CommitOrder, may have the old one.
SELECT coalesce(v.version, 0) AS version, coalesce(v.serves_from, v.version, 0) AS serves_from,
       pg_catalog.current_setting('server_encoding') AS encoding,
       pg_catalog.current_setting('client_encoding') AS client_encoding,
       (SELECT coalesce(pg_catalog.string_agg(k.name, ', ' ORDER BY k.name), '')
        FROM (VALUES ('queues', NULL), ('slots', NULL), ('group_slots', NULL), ('dedup_ids', NULL),
                     ('jobs', 'draw_after_xid'), ('queue_groups', NULL), ('pauses', 'request_walk'), ('fences', NULL),
                     ('attempt_marks', NULL), ('dead_letters', NULL)) AS k (name, needs)
        LEFT JOIN pg_class t ON t.relnamespace = n.oid AND t.relname = k.name
        WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND c.contype = 'p')
           OR k.needs IS NOT NULL
              AND NOT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = t.oid AND g.tgname = k.needs)) AS unfinished,
       EXISTS (SELECT
               FROM pg_proc p
               WHERE p.pronamespace = n.oid AND p.proname = 'replace_waiting'
                 AND p.proargtypes = '25 25 17 17 3802 1184' -- text, text, bytea, bytea, jsonb, timestamptz
                 AND pg_catalog.strpos(p.prosrc, ' ' || $2::text || ' ') = 0) AS renamed
FROM (SELECT max(c.value) FILTER (WHERE c.name = 'schema_version') AS version,
             max(c.value) FILTER (WHERE c.name = 'serves_from') AS serves_from
      FROM (SELECT p.proname AS name, substring(p.prosrc FROM '^SELECT ([0-9]{1,9})$')::integer AS value
            FROM pg_proc p
            JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = $1::text AND p.proname IN ('schema_version', 'serves_from') AND p.pronargs = 0) c) v
LEFT JOIN pg_namespace n ON n.nspname = $1::text
