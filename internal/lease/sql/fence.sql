-- Draws the group's ($1 queue, $2 group id) next fencing token for the claim whose transaction is $3, or returns
-- nothing if that transaction has ended.
--
-- To be run by itself, on another connection than the claim's: the token is durable when the statement has returned,
-- whatever becomes of the job, so it is never given out again. That is why it is written into a row, and
-- synchronous_commit is raised, if somebody lowered it.
--
-- Why a token is higher than every one of an earlier claim: tokens come from one sequence, and a token is returned only
-- if the claim's transaction is open when it has been drawn. A later claim begins when that transaction has ended, be
-- it one of a session (keep_claim.sql), so what it draws is drawn later. The condition looks again after the lock of
-- the row and after the draw: it is on the rows that INSERT returns. Losing the row of a group that nobody holds is
-- harmless, because the sequence goes on. Where several claims of a group may be open at once, this holds for those of
-- one job.
WITH drawn AS (
    INSERT INTO pgfifo.fences AS f (queue, group_id)
    SELECT $1, $2
    FROM set_config('synchronous_commit',
                    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                         ELSE current_setting('synchronous_commit') END, true)
    WHERE pg_xact_status($3::text::xid8) = 'in progress'
    ON CONFLICT (queue, group_id) DO UPDATE SET token = DEFAULT
    RETURNING f.token
)
SELECT d.token
FROM drawn d
WHERE pg_xact_status($3::text::xid8) = 'in progress'
