-- Ends jobs of a batch that succeeded: those at the heads of its groups, or those behind a head. Run in the transaction
-- that holds their groups: one row, or an error.
--
-- $1 queue, $2 ids, $3 where their rows are, as the claim told; see succeed.sql. Jobs behind the head of a group are
-- not locked, so an operator may have moved or deleted one meanwhile, by Purge say, or a producer replaced it. Then the
-- rows are fewer, and the batch must be undone: its COMMIT is on the way already, so it is an error (of a text that is
-- no number) that stops it. It waits a second for whoever does that in a transaction that he keeps open.
WITH done AS (
    DELETE FROM pgfifo.jobs
    WHERE ctid = ANY ($3::tid[]) AND queue = $1 AND id = ANY ($2::bigint[])
    RETURNING 1
)
SELECT CASE WHEN count(*) <> pg_catalog.cardinality($2::bigint[])
            THEN ('pgfifo: only ' || count(*)::text || ' jobs of the batch are as they were')::integer
       END
FROM done
