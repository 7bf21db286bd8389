-- Lets the commit of this transaction not wait for the disk, nor for a standby: one row. See Queue.Relaxed.
--
-- Run in the transaction that completes jobs, with what completes them, and for that transaction alone: the lane's next
-- one may be another queue's. What the handler has set for it is overruled. A crash of the server loses the last
-- commits, each as a whole and none before an earlier one: a durable commit has those before it on disk as well.
SELECT pg_catalog.set_config('synchronous_commit', 'off', true)
