-- The version that a schema is at, 0 if it has none, or is not there; and the encoding of the database.
--
-- $1 schema.
--
-- The version is the constant that the function schema_version returns; each step replaces it. It is read from the
-- catalog, not called: a call of a function that is not there is an error, which would abort the caller's
-- transaction; this needs no privilege on the schema; and it never waits for a migration that is under way.
SELECT coalesce(max(substring(p.prosrc FROM '^SELECT ([0-9]{1,9})$')::integer), 0) AS version,
       pg_catalog.current_setting('server_encoding') AS encoding
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1::text AND p.proname = 'schema_version' AND p.pronargs = 0
