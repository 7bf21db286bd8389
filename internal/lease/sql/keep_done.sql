-- Ends jobs that succeeded, of groups that a session has, and lets the groups go: the numbers of those that were still
-- the claim's.
--
-- $1 queues, $2 group ids, $3 tokens of their claims, $4 ids, $5 the sessions, pairwise; no group twice.
--
-- It is keep_take.sql, succeed.sql and keep_end.sql in one, for many jobs whose handlers had no transaction: the UPDATE
-- waits and looks as keep_take.sql does. If a row is not deleted, which a trigger of the user's may do, or the job is
-- gone, it is an error (of a text that is no number), and none is ended: each is settled by itself then.
WITH own AS (
    UPDATE pgfifo.queue_groups g SET session = NULL
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
         WITH ORDINALITY AS k (queue, group_id, token, id, session, n)
    WHERE g.queue = k.queue AND g.group_id = k.group_id AND g.token = k.token AND g.session = k.session
    RETURNING k.n, k.queue, k.group_id, k.id
), done AS (
    DELETE FROM pgfifo.jobs j USING own
    WHERE j.queue = own.queue AND j.group_id = own.group_id AND j.id = own.id
    RETURNING own.n
)
SELECT CASE WHEN (SELECT count(*) FROM own) <> (SELECT count(*) FROM done)
            THEN ('pgfifo: only ' || (SELECT count(*) FROM done)::text || ' jobs could be deleted')::integer
            ELSE own.n::integer
       END AS n
FROM own
