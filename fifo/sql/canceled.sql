-- Answers whether a queue or a group is paused since a Cancel at the latest: one that was resumed, and then paused
-- again, is not. And with what token a session has claimed the group last: 0 is none.
--
-- $1 queue, $2 group id ('': the queue), $3 when it was canceled, in microseconds since 1970.
SELECT EXISTS (SELECT FROM pgfifo.pauses p
               WHERE p.queue = $1 AND p.group_id = $2 AND NOT p.limited
                 AND p.paused_at <= timestamptz 'epoch' + $3::bigint::double precision * interval '1 microsecond'
              ) AS paused,
       coalesce((SELECT g.token FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2), 0) AS token
