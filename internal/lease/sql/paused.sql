-- Tells whether a pause has come for groups since they were claimed: of theirs, or of their queue.
--
-- $1 queue, $2 group ids. Run in the claim's transaction, READ COMMITTED: it sees all that is committed by now. A limit
-- that has come is no pause; the claim had its turn before.
SELECT EXISTS (SELECT FROM pgfifo.pauses p
               WHERE p.group_id = ANY (array_append($2::text[], '')) AND p.queue = $1 AND NOT p.limited)
