-- Answers whether there is a job, running ones included. It reads one entry of the index, and passes dead ones.
--
-- $1 queue, $2 lowest and $3 highest group id: one range of the index, whatever plan is made.
SELECT EXISTS (SELECT FROM pgfifo.jobs j WHERE j.queue = $1 AND j.group_id BETWEEN $2 AND $3)
