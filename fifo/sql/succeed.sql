-- Ends a job that succeeded. $1 queue, $2 group id, $3 id. Run in the transaction that holds the job: one row.
DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3
