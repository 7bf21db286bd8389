-- Lets the groups go that this transaction has taken with keep_take.sql, with its commit: one row, or an error.
--
-- $1 queues, $2 group ids, $3 tokens of their claims, $4 ids of the jobs that were settled, $5 the claims' sessions,
-- pairwise. An id of 0 says that its job may be as it was. A row may be gone with the group's last job.
--
-- If a job was not written in this transaction, what was to settle it has found no row: somebody else has counted the
-- attempt, or a trigger of the user's left the job as it was. COMMIT is on its way already, and would let the group go,
-- and take the mark of a lost attempt with it: an error (of a text that is no number) stops it.
WITH freed AS (
    UPDATE pgfifo.queue_groups g SET session = NULL
    FROM unnest($1::text[], $2::text[], $3::bigint[], $5::bigint[]) AS k (queue, group_id, token, session)
    WHERE g.queue = k.queue AND g.group_id = k.group_id AND g.token = k.token
      AND g.session = k.session
    RETURNING 1
)
SELECT count(*),
       (SELECT min(('pgfifo: job ' || j.id::text || ' is left as it was')::integer)
        FROM unnest($1::text[], $2::text[], $4::bigint[]) AS k (queue, group_id, id)
        CROSS JOIN LATERAL (SELECT r.id
                            FROM pgfifo.jobs r
                            WHERE r.queue = k.queue AND r.group_id = k.group_id AND r.id = k.id AND k.id <> 0
                              AND r.xmin <> pg_current_xact_id()::xid) j) AS unchanged
FROM freed
