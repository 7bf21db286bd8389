-- Tells which jobs behind the head of a group are as the claim of a session has read them (keep_behind.sql): their
-- numbers. Run in the transaction that has locked the group's row with keep_take.sql.
--
-- $1 queue, $2 group id, $3 ids, $4 where their rows were, $5 the transactions that had written them, pairwise.
--
-- Since the claim no transaction of the worker's was open. So a row may have been replaced, the former ones removed,
-- and the present one be where the first one was: the place alone does not tell. From here on it does, because this
-- transaction has an id, and what later ones replace is not removed while it runs (PostgreSQL manual, "Routine
-- Vacuuming"). So a job that is the same here, and is found at its place later (succeed_batch.sql), is what was read.
SELECT k.n::integer
FROM unnest($3::bigint[], $4::tid[], $5::bigint[]) WITH ORDINALITY AS k (id, place, version, n)
CROSS JOIN LATERAL (SELECT r.ctid AS place, r.xmin::text::bigint AS version
                    FROM pgfifo.jobs r
                    WHERE r.queue = $1 AND r.group_id = $2 AND r.id = k.id) j
WHERE j.place = k.place AND j.version = k.version
