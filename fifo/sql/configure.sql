-- Gives settings to a queue that has none. No row: it has some, which stay.
--
-- $1 queue, then its settings: $2 the window of deduplication in microseconds, $3 whether it is by group, $4 how long
-- dead letters are kept in microseconds (0: for ever). Of two that do this at once, the second waits for the first to
-- end its transaction.
INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, dead_letter_retention)
VALUES ($1, $2, $3, $4)
ON CONFLICT (queue) DO NOTHING
RETURNING true
