-- Answers whether a queue is paused, or with a group id that group, or its queue.
--
-- $1 queue, $2 group id ('': the queue).
SELECT EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1 AND NOT p.limited)
