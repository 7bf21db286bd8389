-- Makes sure that the failed jobs of a batch are there to be counted. Run in the transaction that holds their groups,
-- before anything of the batch is settled: one row, or an error.
--
-- $1 queue, $2 ids, $3 where their rows are, as the claim told; see succeed.sql. Jobs behind the head of a group are
-- not locked, so an operator may have moved or deleted one meanwhile. Then retry.sql and bury.sql would find no row,
-- while COMMIT, which is on its way already, would keep what the other jobs wrote: an error (of a text that is no
-- number) stops it, and the batch is undone. It waits a second for whoever keeps such a job locked.
WITH there AS (
    SELECT 1
    FROM pgfifo.jobs
    WHERE ctid = ANY ($3::tid[]) AND queue = $1 AND id = ANY ($2::bigint[])
    FOR UPDATE
)
SELECT CASE WHEN count(*) <> pg_catalog.cardinality($2::bigint[])
            THEN ('pgfifo: only ' || count(*)::text || ' failed jobs of the batch are as they were')::integer
       END
FROM there
