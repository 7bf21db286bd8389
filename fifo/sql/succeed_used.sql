-- Ends a job that succeeded, if its handler had the transaction. Run in the transaction that holds the job: one row.
--
-- $1 queue, $2 group id, $3 id. By the key, not by its place as succeed.sql: the handler, or a trigger of the user's, may
-- have updated the job's own row, which moves it; to miss it would commit the effects and run the job again. If the
-- handler deleted the row itself there is none, and that is committed as it wanted.
DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3
