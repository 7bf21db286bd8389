-- Tells what the next look is to be compared with: the time, the last id that was drawn, and the last request for a
-- walk.
--
-- A sequence shows what has been drawn by anybody, committed or not.
SELECT statement_timestamp() AS now,
       CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS last_id,
       CASE WHEN r.is_called THEN r.last_value ELSE 0 END AS requests
FROM pgfifo.jobs_id_seq s, pgfifo.walk_requests r
