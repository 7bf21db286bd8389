-- Deletes up to $1 deduplication ids that have expired, the oldest first. It passes over those that a producer has.
WITH old AS MATERIALIZED (
    SELECT key
    FROM pgfifo.dedup_ids
    WHERE expires <= statement_timestamp()
    ORDER BY expires
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
DELETE FROM pgfifo.dedup_ids d
USING old
WHERE d.key = old.key
