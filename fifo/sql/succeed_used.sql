-- Ends a job that succeeded, if its handler had the transaction. Run in the transaction that holds the job: one row, or
-- an error.
--
-- $1 queue, $2 group id, $3 id, $4 where its row was when it was claimed. By the key, not by its place as succeed.sql:
-- the handler, or a trigger of the user's, may have updated the job's own row, which moves it.
--
-- If nothing is deleted while the row is still there, COMMIT, which is on its way already, would keep the effects and
-- run the job again: an error (of a text that is no number) stops it. A trigger of the user's may do that. If the
-- handler deleted the row itself there is none, and that is committed as it wanted.
WITH done AS (
    DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 RETURNING 1
)
SELECT CASE WHEN count(*) = 0
             AND (EXISTS (SELECT FROM pgfifo.jobs j WHERE j.ctid = $4 AND j.id = $3)
                  OR EXISTS (SELECT FROM pgfifo.jobs j WHERE j.queue = $1 AND j.group_id = $2 AND j.id = $3))
            THEN ('pgfifo: the job is still there: rows deleted: ' || count(*)::text)::integer
       END
FROM done
