-- Deletes up to $1 deduplication ids that have expired, the oldest first. It passes over those that a producer has.
DELETE FROM pgfifo.dedup_ids d
USING (SELECT key FROM pgfifo.dedup_ids
       WHERE expires <= statement_timestamp()
       ORDER BY expires
       LIMIT $1
       FOR UPDATE SKIP LOCKED) old
WHERE d.key = old.key
