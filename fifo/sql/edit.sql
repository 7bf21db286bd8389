-- Replaces the payload and the headers of a job. Run after lock_job.sql.
--
-- $1 queue, $2 group id, $3 id, $4 payload, $5 headers. xid is the transaction's id. A job behind the head of a batch
-- is not locked by its worker. Its row moves, so the batch that has read the old one is not committed:
-- succeed_batch.sql. The payload is cast to bytea: drivers of database/sql do not know that a parameter whose type is a
-- domain is one.
UPDATE pgfifo.jobs SET payload = $4::bytea, headers = $5::text::jsonb
WHERE queue = $1 AND group_id = $2 AND id = $3
RETURNING pg_current_xact_id()::text::bigint AS xid
