-- Ends the jobs of a batch that succeeded. Run in the transaction that holds their groups: as many rows as ids.
--
-- $1 queue, $2 ids, $3 where their rows are, as the claim told; see succeed.sql. Jobs behind the head of a group are not
-- locked, so an operator may have moved or deleted one meanwhile: then the rows are fewer, and the batch is undone.
DELETE FROM pgfifo.jobs WHERE ctid = ANY ($3::tid[]) AND queue = $1 AND id = ANY ($2::bigint[])
