-- Draws the group's ($1 queue, $2 group id) next fencing token for the claim whose transaction is $3, or returns
-- nothing if that transaction has ended.
--
-- To be run by itself, on another connection than the claim's: the token is durable when the statement has returned,
-- whatever becomes of the job, so it is never given out again. That is why synchronous_commit is raised, if somebody
-- lowered it.
--
-- Why a token is higher than every one of an earlier claim: tokens come from one sequence, and the row of the group is
-- locked from before a token is drawn until it is committed. A later claim exists only when the earlier one's
-- transaction has ended, and then the earlier one draws no more: ON CONFLICT evaluates WHERE and SET after it has
-- locked the row, and whoever inserted first makes the other one take that path. Losing the row of a group that nobody
-- holds is harmless, because the sequence goes on. Where several claims of a group may be open at once, this holds for
-- those of one job.
INSERT INTO pgfifo.fences AS f (queue, group_id)
SELECT $1, $2
FROM set_config('synchronous_commit',
                CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                     ELSE current_setting('synchronous_commit') END, true)
WHERE pg_xact_status($3::text::xid8) = 'in progress'
ON CONFLICT (queue, group_id) DO UPDATE SET token = DEFAULT
WHERE pg_xact_status($3::text::xid8) = 'in progress'
RETURNING f.token
