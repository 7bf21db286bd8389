-- Enqueues messages and remembers their jobs by the keys that dedup.sql has taken in this transaction: both or neither.
--
-- In front of it stands the INSERT of enqueue.sql, as WITH job AS (...), with its parameters, and behind it
-- enqueued.sql. $10 keys, one for each message, NULL for one without. Ids are drawn in the order of the messages. The
-- window of a key begins now: dedup.sql may have waited for it.
, placed AS (
    SELECT j.id, pg_catalog.row_number() OVER (ORDER BY j.id) AS n FROM job j
), remembered AS (
    UPDATE pgfifo.dedup_ids d
    SET job = p.id,
        expires = clock_timestamp() + coalesce(q.dedup_window, 300000000)::float8 * interval '1 microsecond'
    FROM placed p
    JOIN unnest($10::bytea[], $1::text[]) WITH ORDINALITY AS k (key, queue, n) ON k.n = p.n
    LEFT JOIN pgfifo.queues q ON q.queue = k.queue
    WHERE d.key = k.key
)
