-- One text that differs when a database's schema, rights, settings or statistics were changed, and not when rows were,
-- or a table was truncated. Objects of users have ids from 16384 on. A table that has lost its triggers is as one that
-- never had any, but for relhastriggers.
SELECT concat_ws(' ',
    (SELECT concat(count(*), '/', sum(reltuples) FILTER (WHERE relkind <> 'i'), '/',
         sum(relpages) FILTER (WHERE relkind <> 'i'), '/', sum(hashtext(concat_ws(' ', relname, relnamespace, reltype,
         relowner, relam, reltablespace, relpersistence, relchecks, relhasrules, relrowsecurity,
         relforcerowsecurity, relreplident, relispartition, relacl, reloptions)))) FROM pg_class
     WHERE oid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_attribute WHERE attrelid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_statistic WHERE starelid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_proc WHERE oid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_type WHERE oid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_index WHERE indexrelid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_constraint WHERE oid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_rewrite WHERE oid >= 16384),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_attrdef),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_trigger),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_policy),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_namespace),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_extension),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_event_trigger),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_publication),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_statistic_ext),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_default_acl),
    (SELECT concat(count(*), '/', sum(xmin::text::bigint)) FROM pg_largeobject_metadata),
    (SELECT concat(count(*), '/', sum(s.xmin::text::bigint)) FROM pg_db_role_setting s
     WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))),
    (SELECT concat(datconnlimit, datallowconn, datacl, datdba) FROM pg_database WHERE datname = current_database()))
