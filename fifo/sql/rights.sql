-- Tells what the current role lacks of what the statements of every worker need: a row for each, and none if it lacks
-- nothing. It may have them in any way: as a member, as the owner, or granted by hand.
--
-- What only some queues need is not among them: those with a limit, say, or with messages of no group. Nor is a table
-- that is not there: what uses it says so.
SELECT current_user::text AS role,
       n.privilege || coalesce(' (' || pg_catalog.array_to_string(n.columns, ', ') || ')', '') || ' on ' || n.relation
           AS lacks
FROM (VALUES
    ('pgfifo.queues', 'SELECT', '{queue,group_limit,lease}'::text[]),
    ('pgfifo.jobs_id_seq', 'SELECT', NULL),
    ('pgfifo.walk_requests', 'SELECT', NULL),
    ('pgfifo.jobs', 'SELECT', NULL),
    ('pgfifo.jobs', 'UPDATE', '{run_at,attempts,failures}'),
    ('pgfifo.jobs', 'DELETE', NULL),
    ('pgfifo.queue_groups', 'SELECT', NULL),
    ('pgfifo.queue_groups', 'INSERT', '{queue,group_id}'),
    ('pgfifo.queue_groups', 'UPDATE', '{session}'),
    ('pgfifo.pauses', 'SELECT', '{queue,group_id,limited}'),
    ('pgfifo.attempt_marks', 'SELECT', '{queue,group_id,id,attempt}'),
    ('pgfifo.attempt_marks', 'INSERT', '{queue,group_id,id,attempt,xid}'),
    ('pgfifo.attempt_marks', 'UPDATE', '{attempt,xid}'),
    ('pgfifo.attempt_marks', 'DELETE', NULL),
    ('pgfifo.dead_letters', 'INSERT',
     '{queue,group_id,id,payload,headers,attempts,max_attempts,enqueued_at,failures,priority}'),
    ('pgfifo.with_failure', 'EXECUTE', NULL),
    ('pgfifo.lives', 'EXECUTE', NULL)
) AS n (relation, privilege, columns) -- no columns: the whole table; EXECUTE: a function
CROSS JOIN LATERAL (SELECT pg_catalog.to_regclass(n.relation::text)::oid AS oid) r
WHERE CASE WHEN n.privilege = 'EXECUTE'
           THEN NOT pg_catalog.has_function_privilege(pg_catalog.to_regproc(n.relation::text)::oid, 'EXECUTE')
           WHEN n.columns IS NULL THEN NOT pg_catalog.has_table_privilege(r.oid, n.privilege::text)
           ELSE EXISTS (SELECT FROM pg_catalog.unnest(n.columns) AS c (name)
                        WHERE NOT pg_catalog.has_column_privilege(r.oid, c.name, n.privilege::text))
      END
