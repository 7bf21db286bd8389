-- Takes the deduplication ids of messages for this transaction, and tells of each whether it is remembered. Enqueueing
-- begins with it: no id of a job is drawn while somebody else may have taken the same.
--
-- $1 queues, $2 group ids ('': Ungrouped), $3 deduplication ids ('': none), all of one length; $4 the default window in
-- microseconds.
-- One row for each message with a deduplication id: its number, the key, and the job that was enqueued with it first,
-- or NULL: it is new, and enqueue_new.sql is to remember its job.
--
-- Whoever takes a key second waits until the first one's transaction has ended, and then finds its job, or takes the
-- key itself. ON CONFLICT evaluates SET with the row as it is when it has been locked. Keys are taken in one order, so
-- that calls cannot deadlock with each other. One that has expired by this server's clock, or that was taken and not
-- used, is taken anew. But if this statement has waited for the transaction that took a key, its snapshot does not have
-- that transaction's job. Then the key is remembered, however long that transaction was open.
--
-- Ids are printable, so no two keys are made of the same text.
WITH message AS (
    SELECT m.n, m.group_id, pg_catalog.sha256(pg_catalog.convert_to(
               m.queue || E'\n' || CASE WHEN q.dedup_by_group THEN m.group_id || '~' ELSE '' END || E'\n' || m.dedup_id,
               'UTF8')) AS key,
           coalesce(q.dedup_window, $4::bigint) AS lasts
    FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS m (queue, group_id, dedup_id, n)
    LEFT JOIN pgfifo.queues q ON q.queue = m.queue
    WHERE m.dedup_id <> ''
), taken AS (
    INSERT INTO pgfifo.dedup_ids AS d (key, expires, ungrouped)
    SELECT DISTINCT ON (m.key) m.key, statement_timestamp() + m.lasts::float8 * interval '1 microsecond',
           nullif(m.group_id = '', false)
    FROM message m
    ORDER BY m.key, m.n
    ON CONFLICT (key) DO UPDATE
    SET (job, expires, ungrouped) = (
        SELECT CASE WHEN k.kept THEN d.job END, CASE WHEN k.kept THEN d.expires ELSE EXCLUDED.expires END,
               CASE WHEN k.kept THEN d.ungrouped ELSE EXCLUDED.ungrouped END
        FROM (SELECT d.job IS NOT NULL
                     AND (d.expires > statement_timestamp()
                          OR d.job IS DISTINCT FROM (SELECT o.job FROM pgfifo.dedup_ids o WHERE o.key = d.key))
             ) AS k (kept))
    RETURNING d.key, d.job
)
SELECT m.n, t.key, t.job
FROM message m
JOIN taken t ON t.key = m.key
