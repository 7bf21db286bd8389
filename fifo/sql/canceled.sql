-- Answers whether there is a pause of a queue or a group that began when a Cancel's did, or before: not one that
-- somebody has made after a Resume. And with what token a session has claimed the group last: 0 is none.
--
-- $1 queue, $2 group id ('': the queue), $3 when the Cancel's pause began, in microseconds since 1970 (pause.sql).
SELECT EXISTS (SELECT FROM pgfifo.pauses p
               WHERE p.queue = $1 AND p.group_id = $2 AND NOT p.limited
                 AND p.paused_at <= timestamptz 'epoch' + $3::bigint::double precision * interval '1 microsecond'
              ) AS paused,
       coalesce((SELECT g.token FROM pgfifo.queue_groups g WHERE g.queue = $1 AND g.group_id = $2), 0) AS token
