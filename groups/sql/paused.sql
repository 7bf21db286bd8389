-- Tells whether anything in a queue is paused. $1 queue.
--
-- As long as a worker knows that nothing is, its claims need not look; see groups/known.go for how long that is.
SELECT EXISTS (SELECT FROM pgfifo.pauses p WHERE p.queue = $1)
