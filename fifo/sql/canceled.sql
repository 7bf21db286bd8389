-- Answers whether a queue is paused, or with a group id that group, or its queue; and with what token a session has
-- claimed the group last: 0 is none.
--
-- $1 queue, $2 group id ('': the queue).
SELECT EXISTS (SELECT FROM pgfifo.pauses p WHERE p.group_id IN ('', $2) AND p.queue = $1 AND NOT p.limited) AS paused,
       coalesce((SELECT g.token FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2), 0) AS token
