-- Gives settings to a queue that has none. No row: it has some, which stay.
--
-- $1 queue, then its settings: $2 the window of deduplication in microseconds, $3 whether it is by group. Of two that
-- do this at once, the second waits for the first to end its transaction.
INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group)
VALUES ($1, $2, $3)
ON CONFLICT (queue) DO NOTHING
RETURNING true
