-- Tells which lease each of the queues in $1 has.
SELECT k.queue, coalesce((SELECT q.lease FROM pgfifo.queues q WHERE q.queue = k.queue), 'transaction')
FROM pg_catalog.unnest($1::text[]) AS k (queue)
