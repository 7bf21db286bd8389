-- Ends a job that succeeded. Run in the transaction that holds the job: one row.
--
-- $1 queue, $2 group id, $3 id, $4 where its row is, as the claim told. Nobody can have moved it, because the row is
-- locked and the handler did not take the transaction (else: succeed_used.sql), and the place cannot have been given to
-- another row while the transaction that read it is running; the rest of the key is checked all the same.
DELETE FROM pgfifo.jobs WHERE ctid = $4 AND queue = $1 AND group_id = $2 AND id = $3
