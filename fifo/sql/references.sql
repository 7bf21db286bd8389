-- Tells which foreign keys refer to jobs or to groups: their oids, tables and names. The library has none.
--
-- Whoever writes a row that refers to a job locks the job's row FOR KEY SHARE, beside the worker that has it. From then
-- on the row's xmax stands for both (a MultiXactId), and what reads there who has the job, or who had it when it died,
-- finds nobody.
SELECT c.oid::bigint AS oid, c.conrelid::pg_catalog.regclass::text AS "table", c.conname::text AS name
FROM pg_catalog.pg_constraint c
WHERE c.contype = 'f' AND c.conparentid = 0
  AND c.confrelid IN ('pgfifo.jobs'::pg_catalog.regclass, 'pgfifo.queue_groups'::pg_catalog.regclass)
ORDER BY c.oid
