-- Gives jobs that wait the payloads and headers of newer messages with their deduplication ids, one after the other.
--
-- $1 queues, $2 group ids ('': a group of its own), $3 the keys, which dedup.sql has taken in this transaction, $4
-- payloads, $5 headers (NULL: none has any), all of one length. A row for each message: its number, and whether it has
-- replaced what was there.
--
-- The function says what is replaced and what is not. It does what a producer has no right to do.
SELECT m.n, pgfifo.replace_waiting(m.queue, m.group_id, m.key, m.payload, m.headers::jsonb, statement_timestamp())
       AS replaced
FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::text[])
     WITH ORDINALITY AS m (queue, group_id, key, payload, headers, n)
ORDER BY m.n
