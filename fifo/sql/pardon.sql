-- Takes the evidence of a crash from jobs behind the head: their batch was undone after it had touched them, and their
-- worker lives. Run in a transaction that holds the group, and that commits: one row.
--
-- $1 queue, $2 group id, $3 ids. Those that are gone or that somebody has locked are passed over.
SELECT count(*)
FROM (SELECT FROM pgfifo.jobs
      WHERE queue = $1 AND group_id = $2 AND id = ANY ($3::bigint[])
      FOR NO KEY UPDATE SKIP LOCKED) pardoned
