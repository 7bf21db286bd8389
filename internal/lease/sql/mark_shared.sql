-- Marks an attempt as begun, of a job of a group of which several may run at once, and says who runs it.
--
-- $1 queue, $2 group id, $3 id, $4 number of the attempt, $5 the transaction that has claimed the job, on another
-- connection.
--
-- What mark.sql says holds here. With it the job has started: claims pass over it for as long as that transaction has
-- its row locked (claim_shared.sql). One that has ended marks nothing, for somebody else may have the job by now.
INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt, xid)
SELECT $1, $2, $3, $4, $5::text::xid8
FROM set_config('synchronous_commit', 'local', true)
WHERE pg_xact_status($5::text::xid8) = 'in progress'
ON CONFLICT (queue, group_id, id) DO UPDATE SET attempt = EXCLUDED.attempt, xid = EXCLUDED.xid
