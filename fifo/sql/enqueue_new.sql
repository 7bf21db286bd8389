-- Enqueues messages and remembers their jobs by the keys that dedup.sql has taken in this transaction: both or neither.
--
-- In front of it stands the INSERT of enqueue.sql, as WITH job AS (...), with its parameters, or that of
-- enqueue_priority.sql, whose priorities are $10 then. $9 keys, one for each message, '' for one without. Ids are drawn
-- in the order of the messages.
, placed AS (
    SELECT j.id, pg_catalog.row_number() OVER (ORDER BY j.id) AS n FROM job j
), remembered AS (
    UPDATE pgfifo.dedup_ids d SET job = p.id
    FROM placed p
    JOIN pg_catalog.unnest($9::bytea[]) WITH ORDINALITY AS k (key, n) ON k.n = p.n
    WHERE d.key = k.key
)
SELECT id, xid FROM job
