-- The version that a schema is at, 0 if it has none, or is not there; the lowest version that a release has to know to
-- work with it; the encoding of the database, and that of the connection.
--
-- $1 schema.
--
-- The two numbers are the constants that the functions schema_version and serves_from return; each step replaces both.
-- They are read from the catalog, not called: a call of a function that is not there is an error, which would abort
-- the caller's transaction; this needs no privilege on the schema; and it never waits for a migration that is under
-- way. One statement, so that they belong together. A schema that does not say whom it serves serves its own version.
SELECT coalesce(v.version, 0) AS version, coalesce(v.serves_from, v.version, 0) AS serves_from,
       pg_catalog.current_setting('server_encoding') AS encoding,
       pg_catalog.current_setting('client_encoding') AS client_encoding
FROM (SELECT max(c.value) FILTER (WHERE c.name = 'schema_version') AS version,
             max(c.value) FILTER (WHERE c.name = 'serves_from') AS serves_from
      FROM (SELECT p.proname AS name, substring(p.prosrc FROM '^SELECT ([0-9]{1,9})$')::integer AS value
            FROM pg_proc p
            JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname = $1::text AND p.proname IN ('schema_version', 'serves_from') AND p.pronargs = 0) c) v
